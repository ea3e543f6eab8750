// Emits one `simd` loop: each varying value is `unroll` registers of `lanes` lanes.
//
// The loop runs twice in code: a main loop over whole groups of lanes x unroll iterations without masks, and a masked
// loop, unrolled once, for the rest. With AVX2, whose stores under masks are slow on some processors, the rest of a
// loop that may do an iteration twice is whole vectors, too, the last of which ends where the loop does: the masked
// loop is for fewer iterations than lanes. Loops whose lanes part ways inside (a divergent inner loop) and that check
// or gather have the masked form only. Control flow under a varying condition runs under the execution mask `exec_`;
// code never runs with an empty mask, so a uniform load in it is safe.
//
// A check that fails in the main loop, before the iteration stored anything, starts the iteration again in the masked
// loop. There the first failing lane writes the failure, it and the lanes after it are switched off, and the loop
// leaves when the lanes before it have finished the iteration.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "cpu/divergence.h"
#include "cpu/lanes.h"

namespace appy::cpu {

class VectorLoop : private Lanes {
 public:
  VectorLoop(Function&, const ir::Op& loop);
  using Lanes::lanes;
  /// Can the loop run in lanes?
  static bool supports(Function&, const ir::Op& loop);
  void emit(const Function::Bounds&, std::span<const x86::Reg> carried);
  /// Only whole groups of lanes, of which there has to be one; the iteration behind them.
  x86::Gp emit_groups(const Function::Bounds&, std::span<const x86::Reg> carried);
  /// Where its sums, all that it carries, are to be added to, beside each other: as many to a vector as it has lanes.
  void add_to(std::span<const x86::Vec> packs) { packs_.assign(packs.begin(), packs.end()); }
  /// Iterations that run at once, where as many are left.
  int group() const { return lanes_ * (masked_only_ ? 1 : main_unroll_); }
  /// Do all of these have one value, known before the loop?
  bool knows(std::span<ir::Value* const>) const;

  // Few iterations (vector_short.cpp).
  /// Is what whole groups leave better done one by one? With AVX2 lanes of gathers are loaded one by one anyway, and
  /// masks around that cost more than they save.
  bool may_leave_rest() const;
  /// With fewer iterations than this scalar code is faster; 0: never.
  int scalar_below() const;
  /// Up to so many, which one vector holds, that is faster than scalar code even so; 0: none.
  int one_vector_up_to() const;

 private:
  /// A divergent loop with more results than this branches around their capture where no lane leaves.
  static constexpr int kCaptureAlways = 2;

  /// Which lanes run. `all`: every one of them, known statically.
  struct Mask {
    bool all = true;
    Regs r;
  };
  struct Loop {
    const ir::Op* op = nullptr;
    bool divergent = false;
    std::vector<Regs> carried;  // a scalar register alone where the value is uniform
    std::vector<Regs> results;  // divergent: captured when a lane leaves; empty where nobody reads it
    std::vector<Regs> next;     // lanes that went on by `continue`
    Regs continued;             // those lanes
    Mask live;                  // lanes that still iterate
    asmjit::Label latch, exit;
    bool exec_is_live = false;
    size_t masks = 0;  // masks_ below this index belong to enclosing loops
  };

  // Structure (vector_loop.cpp).
  void choose_shape();
  /// Operations that wait for each other, one after the other, in an iteration without control flow.
  int longest_chain() const;
  void begin_pass(int unroll, bool masked);
  void setup_accumulators(std::span<const x86::Reg> carried);
  void enter_level(const Function::Bounds&);
  void leave_level();
  void main_loop(const Function::Bounds&, asmjit::Label reduced);
  /// Whole groups of lanes without masks, at least one, until less than one is left.
  void groups();
  /// Has the loop nothing to do but to wait for memory?
  bool waits_for_memory() const;
  /// A store of whole vectors that is worth aligning, or null.
  const ir::Op* store_to_align(const Function::Bounds&) const;
  /// Loads of whole vectors that sums wait for: with AVX-512 each that is not aligned takes two lines of the cache.
  std::vector<const ir::Op*> loads_to_align(const Function::Bounds&) const;
  /// Does the access have one element for each lane, side by side? Or, with its `pair`, two.
  bool runs_along_lanes(const ir::Op& access, const ir::Op*& pair) const;
  /// Does the main loop consist of unmasked, unchecked code that the masked loop may enter in between?
  bool may_align(const Function::Bounds&) const;
  /// Lets the masked loop do the iterations before the first at which the store is aligned, where `only_if` (may be
  /// invalid) is not 0.
  void align(const ir::Op& store, x86::Gp only_if);
  /// The same for loads that lie alike.
  void align_loads(const std::vector<const ir::Op*>&);
  /// Begins with what is before the next aligned address, of elements of this size, unless there is nothing (`done`).
  void begin_before(x86::Gp address, unsigned size, asmjit::Label done);
  /// The stores of this loop that can go around the caches; false: there are none.
  bool plan_stream(const Function::Bounds&);
  /// Sets `streaming_`: is the stream worth it, and are its stores aligned?
  void decide_to_stream();
  /// May iterations be done twice? They store the same again where the loop reads nothing that it stores.
  bool may_repeat(const Function::Bounds&) const;
  /// Do its iterations fill groups of vectors, and nothing asks for single lanes?
  bool ends_with_a_group(const Function::Bounds&) const;
  /// What whole groups leave of a loop of at least as many iterations as lanes, without masks: vectors, of which the
  /// last one ends where the loop does and repeats iterations of the one before.
  void last_groups(const Function::Bounds&);
  void masked_loop(const Function::Bounds&);
  void iteration(bool masked);
  /// Does the carried value take part in a leader's group?
  bool in_group(size_t k) const;
  void merge_accumulators();
  void plan_targets(const ir::Block&, const std::vector<Regs>& carried);
  bool is_checked_behind(const ir::Op&) const;
  const ir::Value* sum_before(const ir::Value& next, const ir::Value& carried) const;

  // Results (vector_reduce.cpp).
  void reduce(std::span<const x86::Reg> carried);
  /// A minimum or maximum, and what follows it: of the best lanes the one that the tie decides for. All lanes began
  /// with what was there before the loop.
  void reduce_group(size_t leader, std::span<const x86::Reg> carried);
  void merge_group(size_t leader, std::span<const size_t> followers);
  bool moves_with_followers(size_t leader) const;
  /// Sums and products of one type, as many at a time as there are lanes; says which it did.
  std::vector<bool> reduce_together(std::span<const x86::Reg> carried);
  /// Combines what the lanes of an accumulator make with what was there before the loop.
  void add_up(size_t k, x86::Reg partial, x86::Reg carried);
  /// A sum that starts from the constant 0.0: that is in its lanes, and nothing is left to add at the end.
  bool starts_at_zero(size_t k) const;

  // Control (vector_control.cpp).
  /// False if control does not reach the end (every lane jumped).
  bool block(const ir::Block&, const std::function<void(const ir::Op&)>& yield);
  void op(const ir::Op&);
  bool varying_if(const ir::Op&);
  /// The load gives the condition of the conditional behind it, which does nothing without it, and a mask as long as
  /// one vector: emits a jump to the label where all of it is false.
  bool skip_false_masks(const ir::Op& load, asmjit::Label past);
  bool uniform_if(const ir::Op&);
  void inner_loop(const ir::Op&);
  /// Is it worth (or, for what must not run without lanes, necessary) to jump around an arm whose mask is empty?
  bool worth_a_branch(const ir::Block& arm) const;
  std::vector<Regs> inits(const ir::Op&, size_t first, const ir::Block& body, size_t first_arg);
  static bool contains_check(const ir::Op&);
  void skip_if_empty(const ir::Op&);

  // Exits (vector_exits.cpp).
  /// A conditional of a divergent loop's body in which lanes do nothing but leave the loop; false: it is not one.
  bool exit_test(const ir::Op&);
  void leave_iteration(const ir::Op& terminator);
  /// In the masked loop: the accumulator takes the op's result as soon as nothing needs the old value any more.
  void merge_early(const ir::Op&);
  void end_iteration(const ir::Op& yield, Loop&);
  /// The results that are read after the loop, as a `break` gives them; empty for the others.
  std::vector<Regs> captured(const Loop&, const ir::Op& exit);
  void capture(Loop&, const Regs& lanes, std::span<const Regs> values);
  void kill(const Regs& lanes, bool from_loop);
  /// Is the check left to one behind it that implies it? The iterations are done again where that one fails.
  bool left_out(const ir::Op& check) const;
  void find_left_out();
  void leave_out_test(const ir::Value& condition);
  void check(const ir::Op&);

  // Values (vector_values.cpp).
  bool varying(const ir::Value* v) const { return d_.varying(v); }
  Regs get(const ir::Value*);
  void set(const ir::Value*, Regs);
  /// The same, in the registers that the value is to have where there are such.
  void finish(const ir::Value*, Regs);
  Regs fresh(ir::DType);
  using Lanes::copy;
  Regs copy(const Regs&, ir::DType);
  /// Registers of their own: a constant that loops count from would occupy one while they run.
  Regs zeros(ir::DType);
  void assign(const Regs& to, const Regs& from);
  void assign_all(const std::vector<Regs>& to, const std::vector<Regs>& from);
  Regs broadcast(const ir::Value*);
  Regs linear();
  /// Loads a uniform value into all lanes at once, where its only user computes with lanes, and multiplies it there if
  /// that is all that is done with it before: what scalars are is not sent to the lanes by way of a register. False: it
  /// is another op.
  bool into_lanes(const ir::Op&);
  bool serves_lanes(const ir::Op& uniform) const;
  bool is_scaled_load(const ir::Op& uniform) const;
  x86::Reg exec(int u) { return exec_.r[static_cast<size_t>(u)]; }

  // Ops without effects (vector_ops.cpp, vector_math.cpp).
  void pure(const ir::Op&);
  void by_lane(const ir::Op&);
  bool call_vector(const ir::Op&);
  /// `mantissa` and `exponent`.
  void split_real(const ir::Op&);
  /// What both need where no instruction has them: the bits with exponents that turn over at 3/4, and masks of the
  /// subnormal numbers and of those without a mantissa.
  struct Lifted {
    x86::Vec moved, small, outside;
  };
  Lifted lift(ir::DType, x86::Reg a);
  std::vector<Lifted> lifted_;  // of the `mantissa` emitted last

  // Memory (vector_memory.cpp).
  struct Place {
    enum class Kind : uint8_t { uniform, contiguous, reversed, strided, gather } kind = Kind::uniform;
    x86::Mem base;  // lane 0; without an index register unless contiguous
    bool stride_known = false;
    int64_t stride = 0;  // bytes from lane to lane
    x86::Gp stride_reg;
    Regs index;           // gather: byte or scaled offsets
    int index_bytes = 8;  // 4: sign-extended by the gather itself
    uint32_t shift = 0;
    const ir::Value* indices = nullptr;  // of a gather whose index is one value at that scale
  };
  Place place(const ir::Op&);
  /// May lanes that are off load, too? Behind an array of the region's own there is a line to read (memory.h), and what
  /// these lanes compute of it, real numbers, goes nowhere. A load under a mask takes a unit that computes, besides.
  bool may_read_behind(const ir::Op& load);
  void load(const ir::Op&);
  void store(const ir::Op&);
  void atomic(const ir::Op&);
  x86::Mem lane_group(const Place&, int u);
  x86::Gp base_of(const x86::Mem&);
  /// Byte offsets of the lanes.
  x86::Vec strided_index(const Place&, int element);
  x86::Reg load_contiguous(ir::DType, x86::Mem, bool masked, int u);
  void store_contiguous(ir::DType, x86::Mem, x86::Vec, bool masked, int u);
  /// Stores whole registers of a stream, around the caches where `streaming_` says so.
  void store_stream(ir::DType, const Place&, const Regs&);

  // Gathers and scatters (vector_gather.cpp).
  x86::Reg gather(const ir::Op&, const Place&, int u);
  void scatter(const ir::Op&, const Place&, int u, x86::Vec value);
  bool can_gather(const Place&, int size) const;
  /// AVX2's gathers are slower than the loads that they consist of: on Zen 3 sums of gathered elements took 1.45 times
  /// as long. Lanes that are off have to load something, too, which is there if the first one is on.
  bool faster_by_loads(const Place&, int size) const;
  x86::Vec load_each(ir::DType, const Place&, int u);
  std::vector<x86::Gp> lane_indices(const Place&, int u);
  x86::Mem gather_address(const Place&, int u, bool& narrow);
  /// Calls f(lane, address) for each active lane, in order.
  void each_lane(const Place&, int u, const std::function<void(int, x86::Mem)>& f, bool loads = false);
  x86::Reg load_by_lane(const ir::Op&, const Place&, int u);

  // Asking for what comes (vector_prefetch.cpp).
  void ask_for_lines(x86::Mem first, int bytes);
  /// A loop inside that goes down the columns of a matrix jumps from row to row, often from page to page, where no
  /// processor sees what comes next. With sums enough to compute meanwhile, it asks for the rows to come.
  void prefetch_rows(const ir::Op& load, const Place&);
  /// The same for elements that go into all lanes.
  void prefetch_elements(const ir::Op& load, const x86::Mem&);
  /// Rows that are read at the same time, of which each has a sum of its own, come from memory.
  void prefetch_stream(const ir::Op& load, const Place&);
  /// A load along memory of what one operation needs.
  bool is_stream(const ir::Op&);
  /// Is each sum of a load of its own of that kind?
  bool sums_streams();
  /// The place a few iterations on; without a base where there is nothing to ask for.
  x86::Mem rows_ahead(const ir::Op& load, const x86::Mem&);
  /// The same in a copy whose rows follow each other. With sixteen registers copies are small, and are not asked for.
  x86::Mem panel_ahead(const ir::Op& load, const x86::Mem&);
  /// What is loaded or stored behind a loop that takes longer than memory.
  struct Behind {
    x86::Mem base;
    int bytes;
  };
  std::vector<Behind> places_behind(const ir::Op& loop);
  void ask_for(std::span<const Behind> places);
  /// The first iterations of a loop, `trips` or as many as there are lines, ask for one line each: a first cache that
  /// waits for as many lines from memory as it can serves no loads from the second one meanwhile.
  void ask_in_turn(std::span<const Behind> places, x86::Gp trips, const std::function<void()>& iteration);
  bool asks_in_turn(const ir::Op& loop, std::span<const Behind> places) const;

  // Indices out of arrays (vector_index.cpp).
  /// What the check asks, of nothing but which it is asked.
  std::optional<ir::IndexTest> index_test(const ir::Op& check) const;
  void find_index_tests();
  bool may_take_as_is(const ir::Op& wrap, const ir::Op& check, const ir::Value* extent) const;
  /// Is the op part of a test of an index, which the check makes as a whole, or of one that is left out? What the first
  /// wraps is the index itself then.
  bool left_to_test(const ir::Op&);
  /// False: it is another check.
  bool test_index(const ir::Op& check);
  /// Of what lanes load one by one the indices are better loaded one by one, too, than taken out of a vector.
  void note_loaded(const ir::Op& load, const Place&);
  /// Where the indices were loaded from, whose value is `index` then; null: they are computed.
  const Place* place_of_indices(const ir::Value*& index) const;
  x86::Gp load_index(const ir::Value& index, const Place&, int u, size_t lane);

  // Every other element (vector_strided.cpp), upwards or downwards.
  /// A store that is done where its neighbour stands.
  struct Waiting {
    const ir::Op* op = nullptr;
    Regs values;
    Place place;
  };
  bool every_other(const Place&, ir::DType) const;
  /// With all lanes on: is it loaded by itself as two vectors?
  bool takes_every_other(const Place&, ir::DType) const;
  x86::Reg load_every_other(ir::DType, x86::Mem first, bool down);
  /// Are its elements, of a byte or two, picked from all that lies between them?
  bool takes_windows(const Place&, ir::DType) const;
  x86::Reg load_windows(ir::DType, const Place&, x86::Mem first);
  x86::Xmm load_from_windows(int size, int64_t stride, int count, x86::Mem lowest);
  /// One vector of so many bytes of one, two or four.
  x86::Vec joined(std::span<const x86::Xmm> parts, int size);
  /// Do two accesses of the iteration, of which one takes every other element, touch different memory?
  bool apart(const ir::Op&, const ir::Op&) const;
  /// The access like this one of the elements beside its own that can be done together with it, or null.
  const ir::Op* neighbour(const ir::Op& first) const;
  const ir::Op* neighbour_to_load(const ir::Op& first) const;
  /// Where the pairs of this group of lanes begin.
  x86::Mem first_of_pairs(const ir::Op&, const ir::Op& other, const Place&, int u);
  /// The execution mask for the two vectors of pairs.
  std::array<x86::Reg, 2> pair_masks(int size, int u);
  std::array<x86::Reg, 2> load_pair(const ir::Op&, const ir::Op& other, const Place&, int u);
  void store_pair(const ir::Op&, const Regs&, const ir::Op& other, const Regs& others, const Place&);
  /// Stores both if the first one waits for this store, or lets this one wait; false: it is another store.
  bool store_with_neighbour(const ir::Op&, const Regs& values);
  /// The loads of this one's element and of those beside it, one a lane, which step by the same stride and can be done
  /// together with it; empty: there are fewer.
  std::vector<const ir::Op*> side_by_side(const ir::Op& first) const;
  /// Loads all of them, a whole vector a lane, and swaps lanes and elements. The first one's registers.
  Regs load_transposed(std::span<const ir::Op* const>, const Place&);

  // Neighbours along the lanes (vector_neighbours.cpp).
  /// A stretch of a row: a vector or two more than there are groups of lanes, from the first of the neighbours on, or
  /// from where a line of the cache begins before it.
  struct Stretch {
    int64_t low = 0;    // elements from the load that is done first to its first element
    int64_t width = 0;  // between that one and the last of the neighbours
    bool in_lines = false;
    std::vector<x86::Vec> vectors;
  };
  struct Neighbour {
    std::shared_ptr<Stretch> stretch;  // null: it is loaded by itself
    int64_t at = 0;
  };
  /// Loads an element that has neighbours which are loaded, too; false: it is another load.
  bool load_neighbour(const ir::Op&, const Place&);
  void find_stretch(const ir::Op& first);
  /// Elements by which the load lies further in a vector than the loop's store does, in rows of whole lines of arrays
  /// that may be read a vector around; nothing where that is not known.
  std::optional<int64_t> beyond_whole_vectors(const ir::Op& load) const;
  bool loads_as_they_lie();
  void load_stretch(const ir::Op& first, const Place&, Stretch&);
  x86::Reg first_lanes(int64_t count);

  // Two operations in one instruction (vector_fold.cpp).
  bool fused(const ir::Op&);
  /// A negation that the multiply-add which alone uses it does by its sign.
  bool negates_for_fma(const ir::Value*) const;
  /// Is the load, of whole contiguous registers, only the operand of one instruction that can read memory itself?
  bool may_fold(const ir::Op& load) const;
  /// Loads what was to be folded into its user after all.
  Regs unfold(const ir::Value*);
  /// Where the registers of a load that its user is to do lie in memory; empty if the value is not such a load.
  std::vector<x86::Mem> take_folded(const ir::Value*);
  /// One instruction with a memory operand, if a load waits to become one.
  bool with_memory(const ir::Op&);

  // Instructions under a mask (vector_predicate.cpp).
  /// Is the value what its only user, with AVX-512, makes under a mask?
  bool predicated(const ir::Value*) const;
  /// Emits the op if one of its operands is.
  bool under_mask(const ir::Op&);
  /// Adds to a carried value in place, under the mask of the lanes that run. False: it is another op.
  bool merges_sum(const ir::Op&);
  /// Is `user` the last reader of these registers, and may it write its result there?
  bool dies(const ir::Value*, const ir::Op& user) const;

  const ir::Op& loop_;
  const Divergence d_;
  int unroll_ = 1;  // of the pass being emitted
  int main_unroll_ = 1;
  bool masked_only_ = false;
  bool relaxed_math_ = false;
  std::map<uint32_t, Regs> values_;
  std::map<uint32_t, Regs> targets_;
  std::map<uint32_t, Regs> merges_;
  std::map<uint32_t, Place> folded_;          // loads that wait for their user
  std::map<uint32_t, Neighbour> neighbours_;  // loads that were looked at
  std::map<int64_t, x86::KReg> first_lanes_;
  std::optional<bool> as_they_lie_, computes_reals_;
  std::map<uint32_t, Regs> paired_;                                // loaded together with their neighbours
  std::map<const ir::Op*, Waiting> waiting_;                       // by the store that they wait for
  std::map<std::pair<int, int64_t>, x86::Vec> strided_;            // lanes' offsets, by the size of one and the stride
  std::map<std::tuple<int, int64_t, int64_t>, x86::Vec> windows_;  // bytes of one, by size, stride and where it begins
  Regs linear_;
  x86::Reg linear_step_;
  Mask exec_;
  std::vector<Mask> masks_;  // execution masks of the enclosing conditionals and loops, innermost last
  std::vector<Loop> loops_;
  std::vector<Regs> accumulators_;
  x86::Gp iv_, left_, lane_step_;
  x86::Gp rest_;                  // iterations after those before an aligned address
  bool first_lane_runs_ = false;  // under the mask of a rest, which nothing inside changes
  bool sums_streams_ = false;     // each sum is of a row that it alone needs
  bool one_vector_ = false;       // all that it runs, or nothing: no branch goes around it
  Stream stream_;
  x86::Gp worth_streaming_, streaming_;  // 0 or 1; the first for the whole loop, the second in the main loop only
  bool stream_only_ = false;             // the loop being emitted is entered to stream
  int64_t step_ = 1;
  x86::Gp failed_;
  asmjit::Label replay_;
  asmjit::Label undone_;  // where a group goes that stored nothing and added nothing, to be done otherwise
  asmjit::Label ending_;  // of what does the iterations that whole groups leave
  std::vector<x86::Vec> packs_;
  bool repeats_ = false;  // it does some of them twice
  bool leaves_rest_ = false;
  bool leaves_none_ = false;  // no lane is left for a mask
  bool may_replay_ = false;
  std::set<const ir::Op*> by_test_;  // in the pass being emitted
  std::map<uint32_t, Place> loaded_;
  x86::Mem addresses_;  // of what the innermost loop being emitted asks for
};

}  // namespace appy::cpu
