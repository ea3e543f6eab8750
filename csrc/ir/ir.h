// The graph: structured SSA without Python objects and without assumptions about a backend.
//
// A Graph is one region. It has parameters (scalars and array views), one body block and results. Ops live in blocks,
// in order; loops and conditionals own blocks. A Value is defined once, by an op or as a block argument, and is visible
// in the rest of its block and in blocks nested there. docs/ir.md describes every op and the text form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/inline_vector.h"

namespace appy::ir {

enum class DType : uint8_t {
#define X(name, bits, cls) name##_,
#include "ir/types.def"
#undef X
};

enum class TypeClass : uint8_t { boolean, sint, uint, real };

/// Size in bytes (1, 2, 4 or 8), class and text name of a scalar type.
int size_of(DType);
TypeClass class_of(DType);
std::string_view name_of(DType);
inline bool is_real(DType t) { return class_of(t) == TypeClass::real; }
/// Of 16 bits: loaded, stored, chosen and converted as they are, computed with in f32.
inline bool is_half(DType t) { return is_real(t) && size_of(t) == 2; }
inline bool is_int(DType t) { return class_of(t) == TypeClass::sint || class_of(t) == TypeClass::uint; }
inline bool is_signed(DType t) { return class_of(t) == TypeClass::sint; }

/// What is known of a view's strides. `inner`: the last dimension has unit stride. `c`, `f`: contiguous. `pairs`: as c,
/// and the last dimension has two elements.
enum class Layout : uint8_t { strided, inner, c, f, pairs };

/// A scalar type (rank < 0) or a view of `rank` dimensions of that element type.
struct Type {
  DType dtype = DType::i64_;
  int8_t rank = -1;
  Layout layout = Layout::strided;
  bool is_view() const { return rank >= 0; }
  friend bool operator==(const Type&, const Type&) = default;
};
inline Type scalar(DType t) { return {t, -1, Layout::strided}; }
/// Is that how an alloc may lay its array out?
inline bool can_alloc(Layout layout) { return layout == Layout::c || layout == Layout::f; }
/// Of an array in C order, or in Fortran's: the dimension that varies fastest (k = 0), slower ones, and so on.
inline size_t by_speed(const Type& array, size_t k) {
  return array.layout == Layout::f ? k : static_cast<size_t>(array.rank) - 1 - k;
}

/// A scalar in 64 bits: integers sign- or zero-extended, bool 0 or 1, f64 its bits, f32, f16 and bf16
/// theirs in the low bits.
/// Constants, arguments, results and snapshots all use it.
using Word = uint64_t;

/// Argument words of a parameter: its value, or a view's address, extents and strides.
inline size_t words_of(const Type& t) { return t.is_view() ? 1 + 2 * static_cast<size_t>(t.rank) : 1; }

enum class Opcode : uint8_t {
#define X(name, arity, effect, rule) name##_,
#include "ir/ops.def"
#undef X
};

enum class Effect : uint8_t { pure, load, store, atomic, alloc, guard, control };
enum class Rule : uint8_t { same, boolean, cond, given, index, real, none };

struct OpInfo {
  std::string_view name;
  int arity;
  Effect effect;
  Rule rule;
};
const OpInfo& info(Opcode);
inline bool is_pure(Opcode c) { return info(c).effect == Effect::pure; }
bool is_terminator(Opcode);

enum class CheckKind : uint8_t {
#define X(name, exception, ninfo) name##_,
#include "ir/checks.def"
#undef X
};

enum class Combiner : uint8_t {
#define X(name, op) name##_,
#include "ir/combiners.def"
#undef X
};
std::string_view name_of(CheckKind);
std::string_view name_of(Combiner);
/// The operation that combines two values; const_ where the rows of the table have none.
Opcode opcode_of(Combiner);
/// Does an update that is made twice count twice?
inline bool counts_each_update(Combiner c) {
  return c == Combiner::sum_ || c == Combiner::prod_ || c == Combiner::xor_;
}
/// What partial results of a combiner that counts each update start from: the loop's initial value is combined once.
/// Those of the others may start from that value.
Word neutral(Combiner, DType);

/// Who runs the iterations of a loop, where a backend has workers that consist of lanes (the pass `distribute`).
/// Everything outside such loops is run by all of them alike, and stores there by one.
enum class Mapping : uint8_t {
  none,     // whoever runs the code around it, in order
  workers,  // each iteration by one worker, with all its lanes
  columns,  // each iteration by one worker; workers whose iterations are neighbours are neighbours, lane by lane
  lanes,    // each iteration by one lane of the worker
  threads,  // each iteration by one lane of one worker
  single,   // all iterations by one lane of whoever runs the code around it
  // As threads, or, where there are few, each iteration by one lane of each group of workers that can wait for each
  // other without the rest. A barrier of this scope orders what such loops wrote, for whoever reads it.
  repeated,
};
std::string_view name_of(Mapping);

struct Op;
struct Block;
struct Graph;

/// Inclusive bounds of an integer value, as far as guards promise them (parameters) or an analysis found them.
struct Range {
  int64_t lo = INT64_MIN;
  int64_t hi = INT64_MAX;
  friend bool operator==(const Range&, const Range&) = default;
};

struct Value {
  Type type;
  uint32_t id = 0;         // unique in the graph; dense enough to index side tables of size Graph::value_count()
  Op* op = nullptr;        // defining op, or null for a block argument or parameter
  Block* block = nullptr;  // owning block of a block argument or parameter
  uint32_t index = 0;      // which result or argument
  Range range;             // promised by the region's guards; only parameters carry one
  std::string name;        // printed name without '%', may be empty
};

/// Index into Graph::locs. 0 is "unknown".
using LocId = uint32_t;

/// A source position and, for code of an inlined helper, the call it was inlined at.
struct Loc {
  std::string file;
  int line = 0;
  int column = 0;
  LocId inlined_at = 0;
};

/// The subscript of a load, store or atomic, one affine row a dimension: index[d] = offset[d] + sum_k coef[d][k] * term
/// k. The terms are the last `terms` operands of the op: loop variables, invariants, or loaded values (a gather).
/// Indices are in elements, never negative, and in range: wrapping and checking are ops of their own before the access.
struct Access {
  using Row = InlineVector<int64_t, 4>;

  int terms = 0;
  std::vector<int64_t> offset;  // [rank]
  std::vector<Row> coef;        // [rank][terms]
};

/// Words that a check has for its message.
constexpr int kMaxInfo = 12;
/// Bytes of a line of a processor's caches.
constexpr int kCacheLine = 64;

struct Check {
  CheckKind kind = CheckKind::bounds_;
  int ninfo = 0;           // operands after ok: words for the message
  bool has_state = false;  // the remaining operands are the region's results as Python has them at this point
  bool declines = false;   // nothing was written yet: on failure the interpreter takes over from the start
  std::string text;
};

enum class Schedule : uint8_t { automatic, statically, dynamic };

/// How the value of a loop-carried variable depends on the iterations. For followers `leader` is the carried index
/// whose comparison decides; `tie` (on the leader) is the carried index that holds the iteration of the last update.
struct Carried {
  Combiner combiner = Combiner::recur_;
  int leader = -1;
  int tie = -1;
  friend bool operator==(const Carried&, const Carried&) = default;
};

struct Loop {
  bool parallel = false;   // iterations may run on workers
  bool simd = false;       // iterations may run in lanes
  bool annotated = false;  // a pragma speaks of it: FMA (and, for its reductions, reassociation) is allowed
  Schedule schedule = Schedule::automatic;
  int64_t chunk = 0;    // schedule(…, chunk) or block(n); 0 is automatic
  int64_t le = 0;       // le(n); 0 is none
  int32_t threads = 0;  // num_threads(n); 0 is the default
  int32_t collapse = 1;
  bool tiles =
      false;  // of the nest from here on, tiles may be computed from tiles of what they need (passes/product.h)
  std::vector<Carried> carried;  // one a carried value; `for` only
};

struct Op {
  Opcode code = Opcode::const_;
  LocId loc = 0;
  Graph* graph = nullptr;  // owning graph
  Block* parent = nullptr;
  Op* prev = nullptr;
  Op* next = nullptr;
  std::vector<Value*> operands;
  InlineVector<Value*, 1> results;
  std::vector<Block*> blocks;

  Word imm = 0;                          // const
  int32_t dim = 0;                       // dim
  bool escapes = false;                  // alloc: the array outlives the region, as a Python object
  int32_t slot = -1;                     // alloc: its number in the region, unique; -1 while it has none
  int32_t lead = 0;                      // alloc: it begins so many elements behind the start of a cache line
  Combiner combiner = Combiner::recur_;  // atomic
  Mapping mapping = Mapping::none;       // for, while: who runs it; barrier: whose writes it orders
  std::unique_ptr<Access> access;        // load, store, atomic
  std::unique_ptr<Check> check;          // check
  std::unique_ptr<Loop> loop;            // for

  Value* result() const { return results.empty() ? nullptr : results[0]; }
  /// The view operand of a load, store or atomic.
  Value* view() const;
  /// Index in `operands` of the first access term.
  size_t first_term() const { return operands.size() - static_cast<size_t>(access->terms); }
  std::span<Value* const> terms() const { return std::span(operands).subspan(first_term()); }
};

struct Block {
  Graph* graph = nullptr;
  Op* owner = nullptr;  // null for the region's body
  std::vector<Value*> args;
  Op* first = nullptr;
  Op* last = nullptr;  // the terminator, once complete

  void append(Op*);
  void insert_before(Op* position, Op*);
  /// Unlinks the op; it stays allocated until the graph dies, so it can be inserted again elsewhere.
  void remove(Op*);
};

enum class Severity : uint8_t { note, warning };

/// What a stage wants a person to know: shown by appy.explain; warnings are also issued once.
struct Remark {
  Severity severity = Severity::note;
  std::string stage;
  LocId loc = 0;
  std::string text;
};

/// A number of iterations that whoever enters the region knows: how long a dimension of a parameter is, or the
/// parameter.
struct Length {
  uint32_t parameter = 0;
  int32_t dim = -1;  // -1: the parameter is an i64
  friend bool operator==(const Length&, const Length&) = default;
};

/// x[i] = (b[i] - sum over j < i of matrix[i, j] * x[j]) / matrix[i, i], for i from 0 in order, the sums in any order:
/// what a region is as a whole and nothing else, where the matrix has as many rows and columns. The numbers are those
/// of parameters, x and b may be one.
struct Solve {
  uint32_t matrix = 0, x = 0, b = 0;
  Length rows;
  bool transposed = false;  // matrix[j, i] stands for matrix[i, j]
  bool unit = false;        // it does not divide
  friend bool operator==(const Solve&, const Solve&) = default;
};

/// The triangle of the square matrix with its diagonal becomes L of what it was, L times its transpose, by columns in
/// order, the sums in any order: what a region is as a whole and nothing else. What is above the diagonal is neither
/// read nor written.
struct Factorization {
  uint32_t matrix = 0;  // the number of a parameter
  Length columns;
  bool transposed = false;  // matrix[j, i] stands for matrix[i, j]
  bool blocked = false;     // the loops have become those of a blocked algorithm
  friend bool operator==(const Factorization&, const Factorization&) = default;
};

/// Objects that stay where they are, made some at a time.
template <class T>
class Pool {
 public:
  T& add() {
    if (chunks_.empty() || used_ == kSome) {
      chunks_.push_back(std::make_unique<T[]>(kSome));
      used_ = 0;
    }
    return chunks_.back()[used_++];
  }
  /// In the order in which they were added.
  template <class F>
  void each(F&& visit) {
    for (auto& chunk : chunks_) {
      const size_t count = &chunk == &chunks_.back() ? used_ : kSome;
      for (size_t k = 0; k < count; ++k) visit(chunk[k]);
    }
  }

 private:
  static constexpr size_t kSome = 32;
  std::vector<std::unique_ptr<T[]>> chunks_;
  size_t used_ = 0;  // of the last chunk
};

struct Graph {
  Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name = "region";
  bool exact = false;      // bit for bit: no FMA, no reassociation
  bool may_alias = false;  // views may overlap in any way: keep every load and store in order
  bool auto_simd = true;   // loops may have lanes of which no pragma speaks
  bool inspectors = true;  // to read an index array once more, to test it before the loops, pays
  int registers = 16;      // vector registers that the target has
  bool boxes = false;      // loops over time around rows and columns are to be tiled (overlapped_tiles)
  int workers = 0;         // threads that will run it; 0: nobody knows. Only sizes depend on it
  int64_t cache = 0;       // bytes of the cache that each of them has for itself; 0: nobody knows
  /// Argument words of an entry that it is compiled for, whose sizes may decide which code there is; addresses, strides
  /// and real numbers are 0. Empty: for any entry.
  std::vector<Word> given;
  std::optional<Solve> solve;  // passes keep what the region means
  std::optional<Factorization> factorization;
  Block* body = nullptr;                  // its arguments are the parameters; its yield names the results
  std::vector<std::string> result_names;  // for people; may be empty
  std::vector<Loc> locs;                  // locs[0] is unknown
  std::vector<Remark> remarks;

  Value* new_value(Type, Op* op, Block* block, uint32_t index);
  Op* new_op(Opcode, LocId);
  Block* new_block(Op* owner);
  uint32_t value_count() const { return value_count_; }
  /// The values that stand in the graph get the lowest ids, in their order: side tables are as long as there are ids.
  void renumber();
  LocId add_loc(Loc);
  LocId add_loc(const std::string& file, int line, int column, LocId inlined_at);
  /// Gives an alloc the region's next slot; slots are not used again.
  void number(Op& alloc);
  /// All slots are below it.
  int32_t slot_count() const { return slots_; }
  /// For readers of graphs that have numbers already.
  void reserve_slots(int32_t count) { slots_ = std::max(slots_, count); }

 private:
  int32_t slots_ = 0;
  uint32_t value_count_ = 0;
  Pool<Value> values_;
  Pool<Op> ops_;
  Pool<Block> blocks_;
};

/// The first argument word of a parameter.
size_t first_word(const Graph&, uint32_t parameter);
/// The argument word that says how long it is.
size_t word_of(const Graph&, const Length&);

/// Adds a result / a block argument of this type.
Value* add_result(Op&, Type);
Value* add_arg(Block&, Type, std::string name = {});

/// Calls f(Op&) for every op of the block and the blocks nested in it, outermost first. f may remove its op.
template <class F>
void walk(Block& block, F&& f) {
  for (Op *op = block.first, *next; op; op = next) {
    next = op->next;
    f(*op);
    for (Block* inner : op->blocks) walk(*inner, f);
  }
}

/// Replaces each use of values[i] by to[i] in the whole graph; `to` is indexed by Value::id, null means unchanged.
/// Chains (a -> b -> c) are followed.
void replace_uses(Graph&, const std::vector<Value*>& to);
void replace_uses(Graph&, Value* from, Value* to);

/// 0 <= index and index < extent, in either order.
struct IndexTest {
  Value *index, *extent;
  Op *low, *high;
};
std::optional<IndexTest> index_test(const Value& condition);

/// The alloc that made the array, or null for a parameter.
inline const Op* alloc_of(const Value& view) { return view.op; }
/// An array that only the region sees: stores to it are undone by leaving the region.
inline bool is_temporary(const Value& view) { return view.op && !view.op->escapes; }

/// Index of the first operand of a check or poll that is state, which is told and not read; operands.size(): there is
/// none.
size_t first_state(const Op&);

/// True if the value is defined outside `block` and everything nested in it.
bool defined_outside(const Value&, const Block& block);

/// May the iterations of this `for` run in another order, as far as its carried values go?
bool can_reorder(const Op& loop);
inline bool is_follower(Combiner c) { return c == Combiner::follow_first_ || c == Combiner::follow_last_; }

/// The nearest enclosing loop op of a block (the op itself if the block is its body), or null.
Op* enclosing_loop(const Block&);

/// A deep copy.
std::unique_ptr<Graph> clone(const Graph&);

}  // namespace appy::ir
