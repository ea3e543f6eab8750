// The inside of the code generator: what codegen.cpp (the kernel), statements.cpp (operations) and loops.cpp share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gpu/codegen.h"
#include "gpu/names.h"
#include "gpu/tiling.h"
#include "ir/ir.h"

namespace appy::gpu {

/// Whether a result of the loop is what its last iteration that assigns has assigned.
bool keeps_last(const ir::Op& loop);

/// Who runs the code that is being written.
enum class Level : uint8_t { all, worker, thread };

/// The loops that are numbered together with the outermost of them.
std::vector<const ir::Op*> nest_of(const ir::Op& outermost);
/// Nests whose iterations are the same threads': no barrier is between them where an element is one thread's.
bool are_alike(const std::vector<const ir::Op*>& a, const std::vector<const ir::Op*>& b);
/// Operations of a loop's body that need what the loop carries, and its end.
std::set<const ir::Op*> chain_of(const ir::Op& loop);
/// Does the last loop count alike for all iterations of the others?
bool is_rectangular(const std::vector<const ir::Op*>& nest);

class Writer {
 public:
  Writer(const ir::Graph&, const CodegenOptions&);
  KernelCode write();

 private:
  // codegen.cpp
  void find_arrays(const ir::Block&, ArrayUse::Owner);
  std::string parameters();
  std::string least_resident() const;
  std::string view_parameter(const ir::Value&, size_t word);
  void results(const ir::Op& yield);
  void before_given(const ir::Op&, const ir::Op*& nest);
  /// Of what the kernel tells when it ends well. Behind them is room for variables where a check fails.
  size_t result_words() const;
  [[noreturn]] void refuse(const ir::Op&, const std::string& what) const;

  // statements.cpp
  void block(const ir::Block&);
  void statement(const ir::Op&);
  void note_line(const ir::Op&);
  void define(const ir::Value&, const std::string& expression);
  std::string argument(const ir::Value&);
  std::vector<std::string> arguments(const ir::Op&);
  std::string element(const ir::Op& access);
  std::string subscript(const ir::Op& access, size_t d);
  std::string index_type(const ir::Op& access, size_t d) const;
  bool walks_along(const ir::Op& access, size_t d) const;
  std::string stride(const ir::Value& view, size_t d);
  std::string extent(const ir::Value& view, size_t d);
  bool is_unaligned(const ir::Value& view) const;
  std::string loaded(const ir::Op& load);
  void store(const ir::Op&);
  bool is_in_shared(const ir::Value& view) const;
  bool is_copy(const ir::Op& load) const;
  bool only_copies(const ir::Op& loop) const;
  bool copies_back(const ir::Op& loop) const;
  void await_copies_before(const ir::Op&);
  const ir::Op* stays(const ir::Op& store) const;
  std::vector<const ir::Value*> declare_divisors(const ir::Op& loop);
  void atomic(const ir::Op&);
  void check(const ir::Op&);
  void alloc(const ir::Op&);
  void condition(const ir::Op&);
  bool is_beside_steps(const ir::Op&) const;
  bool is_phase_of_tile(const ir::Op&) const;
  void terminator(const ir::Op&);
  /// Opens what only one of those that run the code may do; false where that is whoever is there.
  bool open_elected();

  // pairs.cpp
  /// The access behind this one that is one with it, or null: of a neighbour in memory, with nothing between.
  const ir::Op* neighbour(const ir::Op&) const;
  void pair(const ir::Op& first, const ir::Op& second);
  /// Is the array, as the kernel finds it, aligned to pairs of its elements? Of those of the parameters one variable
  /// says it for all, so that the compiler makes two versions of a loop and not one for each of them.
  std::string aligned(const ir::Value& view);
  std::string pairs_parameter() const;

  // loops.cpp
  void loop(const ir::Op&);
  void in_order(const ir::Op&);
  bool in_chains(const ir::Op&);
  void single(const ir::Op&);
  /// May the flag of failures be set in the loop?
  bool may_die(const ir::Op& loop) const;
  void distributed(const ir::Op&);
  void along_lanes(const ir::Op&);
  void along_workers(const std::vector<const ir::Op*>& nest);
  void workers(const std::vector<const ir::Op*>& nest);
  void along_threads(const std::vector<const ir::Op*>& nest);
  void along_repeated(const ir::Op& loop, const std::string& alone);
  void body(const ir::Op& loop, const ir::Op* inner, const std::function<void()>& write_inner);
  std::string declare_trips(const ir::Op& loop);
  std::vector<std::string> declare_indices(const std::string& index, std::span<const std::string> trips);
  void declare_variable(const ir::Op& loop, const std::string& index);
  std::string variable_at(const ir::Op& loop, const std::string& index);
  void declare_carried(const ir::Op&, bool neutral);
  std::string partial_type(const ir::Op& loop);
  std::string partial_of(const ir::Op& loop, bool neutral);
  void finish(const ir::Op& loop, const std::string& type, const std::string& total);
  void leave_if_dead(const ir::Op& inner);
  void leave_if_told();

  // columns.cpp
  void along_columns(const ir::Op&);
  bool takes_all_rows(const ir::Op& lanes) const;
  void find_kept(const ir::Op& columns);
  void along_all_rows(const ir::Op&, const std::string& trips);
  void rows_together(const ir::Op&, const std::string& k, const std::string& n);
  void load(const ir::Op&);

  // unroll.cpp
  bool can_interleave(const ir::Op& loop, const ir::Op* but) const;
  bool can_unroll(const ir::Op& loop, const ir::Op* but) const;
  bool can_take_rows(const std::vector<const ir::Op*>& nest) const;
  bool holds_for_alike(const std::vector<const ir::Op*>& nest,
                       bool (Writer::*holds)(const std::vector<const ir::Op*>&) const) const;
  void along_line(const ir::Op& loop, const std::string& n);
  void rows(const ir::Op& loop, const ir::Op& along, int count, const std::string& trips, const std::string& group,
            const std::function<void(std::vector<Names::Scope>*)>& across);
  std::vector<Names::Scope> declare_copies(const ir::Op& loop, int count, const std::string& first,
                                           const std::string& step);
  void side_by_side(const ir::Op& loop, const ir::Op* once, std::vector<Names::Scope>& copies,
                    const std::function<void(const ir::Op&)>& write);

  // flat.cpp
  std::string known_number(const ir::Value&) const;
  bool lies_flat(const ir::Op& access, const std::vector<const ir::Op*>& nest, std::set<std::string>& tests) const;
  bool is_flat(const std::vector<const ir::Op*>& nest, std::set<std::string>& tests) const;
  void find_flat();
  void flatten(const std::string& test, std::vector<std::string>& outer, std::string& n);
  void along_flat(const std::vector<const ir::Op*>& nest);

  // march.cpp
  bool has_columns_apart(const std::vector<const ir::Op*>& nest) const;
  int rows_of_march(const std::vector<const ir::Op*>& nest) const;
  bool can_march(const std::vector<const ir::Op*>& nest) const;
  struct Marching;
  Marching& marching(const std::vector<const ir::Op*>& nest) const;
  bool pays_to_march(const std::vector<const ir::Op*>& nest, Marching&) const;
  void along_march(const std::vector<const ir::Op*>& nest);
  void march_rows(const std::vector<const ir::Op*>& nest, const std::string& first, const std::string& k,
                  const std::string& end);

  // pieces.cpp
  void find_pieces();
  bool lies_in_piece(const ir::Op& access, const ir::Op& loop, int count, const std::set<const ir::Op*>& chain) const;
  int most_neighbours(const ir::Op& loop) const;
  int neighbours_up_to(const ir::Op& loop, int most) const;
  std::string alignment_of(const ir::Value& view, const std::string* flat) const;
  /// So many neighbouring iterations of the loop are one thread's.
  int neighbours(const ir::Op& loop) const;
  int pieces_in_flight(const ir::Op& loop) const;
  /// Where arrays are aligned: the loop's iterations in pieces, from number `first` on, `step` pieces apart; those of a
  /// piece that ends beyond `n` one by one. `deep` pieces are in flight, which is `enough` or not.
  void in_pieces(const ir::Op& loop, const std::string& first, const std::string& step, const std::string& n, int deep,
                 bool enough, std::vector<Names::Scope>* rows = nullptr);
  std::vector<Names::Scope> declare_neighbours(const ir::Op& loop, const std::vector<std::string>& at,
                                               const std::vector<Names::Scope>* rows);
  /// An access of several iterations.
  void pieces(const ir::Op& access, std::vector<Names::Scope>& copies);
  std::string pieces_parameter() const;

  // substitution.cpp
  bool substitution(const ir::Op& loop);

  // tiles.cpp
  TileSize tile_size(const ir::Op& outermost) const;
  bool is_given(const ir::Op& outermost) const;
  void tiles(const ir::Op& outermost);
  void given_sums(const ir::Op& outermost);
  void declare_width(const passes::Product&, const std::string& name, std::string& across);
  void tile_step(const passes::Product&, const std::string& name, const std::string& sums_type,
                 const std::string& row_type, const std::string& column_type);
  void tile_end(const passes::Product&, const std::string& head, const std::string& sums,
                const std::vector<const ir::Value*>& loads, const std::string& held,
                const std::vector<std::pair<const ir::Op*, std::string>>& at);
  void known_of_tile(const passes::Product&);
  void declare_at(const passes::Product&, const std::vector<std::pair<const ir::Op*, std::string>>& at);
  bool can_copy(const std::vector<const ir::Value*>& values) const;
  void copy_function(const std::string& name, const std::string& type, const passes::Product&,
                     const std::vector<const ir::Value*>& values,
                     const std::vector<std::pair<const ir::Op*, std::string>>& at);
  /// A struct of the values, and of the fields `more`.
  std::string struct_of(const std::string& name, const std::vector<const ir::Value*>& values,
                        const std::string& more = "");
  void write_wanted(const passes::Product&, const std::set<const ir::Op*>& wanted);
  void value_function(const std::string& head, const passes::Product&, const std::vector<const ir::Value*>& values,
                      const std::vector<std::pair<const ir::Op*, std::string>>& at, const std::string& begin = {});

  // Text.
  /// What stands before a loop of which a thread has few iterations, that waits for nothing, or whose iterations are
  /// side by side as it is: by itself the compiler makes four of one, with a division that counts them, and takes twice
  /// as long.
  static std::string not_unrolled(bool holds) { return holds ? "_Pragma(\"unroll 1\") " : ""; }
  void put(const std::string& text) { body_ += std::string(2 * depth_, ' ') + text + "\n"; }
  void open(const std::string& text) { put(text + " {"), ++depth_; }
  void close(const std::string& more = "") { --depth_, put("}" + more); }

  const ir::Graph& graph_;
  const CodegenOptions& options_;
  KernelCode code_;
  Names names_;
  std::string body_, structs_;
  size_t depth_ = 1;
  Level level_ = Level::all;
  std::map<const ir::Op*, int> ordinals_;      // of checks
  std::map<const ir::Op*, size_t> tiled_;      // nests that may have tiles: their number
  std::map<const ir::Op*, size_t> array_of_;   // alloc -> index in code_.arrays
  std::map<const ir::Value*, bool> written_;   // views that the region writes
  std::map<const ir::Op*, std::string> flat_;  // innermost loops of nests that are one row where the test holds
  std::map<const ir::Op*, int> neighbours_;    // of loops: iterations that a thread has side by side
  std::map<const ir::Op*, int> pieces_;        // accesses that are one for them: their number
  mutable std::map<const ir::Op*, std::shared_ptr<Marching>> marches_;  // by the nest's outermost loop
  std::set<std::string> piece_alignments_;            // bits that are 0 where arrays are aligned to pieces
  int in_piece_ = 1;                                  // neighbouring iterations in the code being written
  std::set<std::string> paired_;                      // that these arrays are aligned to pairs, each as a test
  std::vector<const ir::Op*> loops_;                  // that the code being written is in, as C++ loops
  const ir::Op* outermost_ = nullptr;                 // of the distributed loops around it
  bool columns_ = false;                              // workers are columns of a block's threads
  std::map<const ir::Value*, std::string> divisors_;  // what loops around divide by: its name as a Divisor
  bool all_rows_ = false;                             // columns: a thread has all of its rows in flight
  bool is_version_ = false;                           // in one of options_.versions
  std::string mine_;                                  // columns: the condition that the thread's column is one
  std::map<const ir::Op*, std::string> keeps_;        // columns: loads whose values stay in registers: of all rows
  std::map<const ir::Op*, std::string> kept_;         // and those of the same elements, which take them from there
  std::string row_;                                   // the number of the thread's row
  std::string elected_;                               // columns: the condition that this thread is its worker's first
  std::string dead_;                                  // the flag that says that a check has failed
  bool awaited_ = false;  // one thread runs a loop that all others wait for: it looks whether the host wants it to end
  std::string at_;        // the variable that holds the last iteration, or empty
  bool copies_ = false, ahead_ = false;  // the loop only copies to shared memory; a thread may have to await copies
  bool one_block_ = false;               // one block runs the code as its only worker
  bool apart_ = false;                   // a store may be written far from the load of the element
  ir::LocId noted_ = 0;
};

}  // namespace appy::gpu
