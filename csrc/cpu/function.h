// Emits one machine function: scalar code and control flow. VectorLoop (vector_loop.h) emits the `simd` loops in it.
//
// Scalars live in virtual registers, integers as canonical 64-bit words. Code whose operands are known earlier goes
// where the earliest enclosing loop allows it, by moving asmjit's cursor there (Level). Early exits go to cold blocks
// behind the hot code.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cpu/context.h"
#include "cpu/module.h"
#include "cpu/streams.h"

namespace appy::cpu {

class PackedSums;
class VectorLoop;

using ir::kCacheLine;

/// Iterations of a short loop between two polls.
constexpr int64_t kStrip = int64_t{1} << 14;

/// A condition in the flags; `also` for unordered floats.
struct Flags {
  enum class Parity : uint8_t { ignored, and_ordered, or_unordered };
  x86::CondCode code;
  Parity parity = Parity::ignored;
};

/// What is computed for addresses is found by such keys.
using AddressKey = InlineVector<int64_t, 16>;

/// A loop being emitted (level 0: the function itself; no loop: what follows an alloc in its block) and the code placed
/// in front of it.
struct Level {
  const ir::Op* loop = nullptr;
  const ir::Block* block = nullptr;       // of an alloc
  asmjit::BaseNode* preheader = nullptr;  // code computed once per entry goes after this node
  x86::Gp iv;
  bool step_known = false;
  int64_t step = 0;  // of the iv from one machine iteration to the next
  x86::Gp step_reg;  // where it is not known
  struct Advance {
    x86::Gp pointer, by;
    int64_t imm;
  };
  std::vector<Advance> advances;                      // running pointers
  std::map<AddressKey, x86::Gp> pointers;             // partial addresses by form and prefix
  std::unordered_map<uint32_t, x86::Reg> broadcasts;  // by value id
};

/// Bytes of an index: known + sum of coef * stride(view, dim).
struct Stride {
  int64_t known = 0;
  InlineVector<std::pair<int, int64_t>, 2> dims;  // dimensions whose stride is a run-time value
  bool constant() const { return dims.empty(); }
  bool zero() const { return dims.empty() && known == 0; }
  friend bool operator==(const Stride&, const Stride&) = default;
};

/// address = data(view) + offset + sum_k stride_k * term_k
struct Form {
  const ir::Value* view = nullptr;
  Stride offset;
  std::vector<std::pair<const ir::Value*, Stride>> terms;
};
Form address_form(const ir::Op& access);
/// The same, but for the known offset.
bool same_form(const Form&, const Form&);

/// How deep loops are nested in the block.
size_t loops_within(const ir::Block&);
/// May the second arm stand elsewhere? It has loops, and takes so long that jumps there and back are nothing; the first
/// one has none, but in such arms.
bool is_far(const ir::Op& conditional);

bool has_atomics(const ir::Op& loop);

class Function {
 public:
  explicit Function(Module&);

  /// The region's entry / the body of an outlined loop. Adds the function to the compiler.
  void emit_region();
  void emit_outlined(const Outlined&);

  Module& module() { return m_; }
  Compiler& cc() { return cc_; }
  Level& level(size_t depth) { return levels_[depth]; }
  size_t depth() const { return levels_.size() - 1; }
  bool avx512() const { return m_.avx512(); }

  // Values.
  x86::Gp gp(const ir::Value*);
  x86::Xmm xmm(const ir::Value*);
  x86::Reg reg(const ir::Value*);
  /// A float's register or, for a constant or a folded load, its place in memory.
  asmjit::Operand xmm_or_mem(const ir::Value*);
  bool is_const(const ir::Value*) const;
  int64_t const_int(const ir::Value*) const;
  x86::Reg new_reg(ir::DType);
  /// Makes the value's register this one.
  void bind(const ir::Value*, x86::Reg);
  bool bound(const ir::Value* v) const { return regs_[v->id].isValid(); }
  int depth_of(const ir::Value*) const;
  void move(x86::Reg to, x86::Reg from);
  /// to[i] = from[i], all at once.
  void move_all(std::span<const x86::Reg> to, std::span<const x86::Reg> from);
  /// to[i] = values[i], all at once.
  void assign(std::span<const x86::Reg> to, std::span<const ir::Value* const> values);
  void load_imm(x86::Gp to, int64_t value);
  x86::Mem constant(const void* data, size_t size);
  x86::Mem constant64(uint64_t bits) { return constant(&bits, 8); }
  x86::Mem constant32(uint32_t bits) { return constant(&bits, 4); }

  // Ops.
  void emit(const ir::Op&);
  /// The ops before the terminator, then f(terminator).
  void emit_block(const ir::Block&, const std::function<void(const ir::Op&)>& terminator);
  bool deferred(const ir::Op&) const;
  /// Does scalar code leave the load to the instruction that needs its value, a float's right operand?
  bool folded(const ir::Op& load) const;
  void jump_if(const ir::Value* condition, bool when, asmjit::Label to);
  void canonicalize(x86::Gp, ir::DType);
  void half_to_float(ir::DType, x86::Xmm to, x86::Gp from);
  void float_to_bfloat(x86::Gp to, x86::Xmm from);
  void float_to_half(ir::DType, x86::Gp to, x86::Xmm from);
  /// One pure op on registers, for reductions too.
  void arithmetic(ir::Opcode, ir::DType, x86::Reg to, x86::Reg a, x86::Reg b);
  void call(const void* target, x86::Reg result, std::span<const x86::Reg> args);
  void load_scalar(ir::DType, x86::Reg to, const x86::Mem&);
  void store_scalar(ir::DType, const x86::Mem&, x86::Reg);
  void atomic_update(const ir::Op&, ir::DType, x86::Mem, x86::Reg value);
  /// The same for a constant that is part of the instruction, as where something is counted; false: it is none.
  bool add_constant(const ir::Op&);

  // Placement.
  /// Runs f with the cursor in the preheader of the loop at this depth (0: function entry).
  template <class F>
  void hoist(size_t depth, F&& f) {
    Level& level = levels_[depth];
    asmjit::BaseNode* at = cc_.cursor();
    cc_.setCursor(level.preheader);
    f();
    const bool same = at == level.preheader;
    levels_[depth].preheader = cc_.cursor();
    if (!same) cc_.setCursor(at);
  }
  /// Runs f, whose code uses nothing from deeper than this (-1: nothing at all), in front of the loops that it is the
  /// same in.
  template <class F>
  void hoist_from(int deepest, F&& f) {
    const auto at = static_cast<size_t>(deepest + 1);
    if (at > depth()) return f();
    hoist(at, f);
  }
  /// f is emitted behind the hot code.
  asmjit::Label cold(std::function<void()> f);
  /// Emits code that begins with a label and ends with a jump. It moves behind the function's other code in the end.
  void aside(const std::function<void()>& emit);
  void leave(runtime::Status);
  void leave(x86::Gp status);

  // Streams.
  /// 1 if the stream of this simd loop, about to be emitted, is to go around the caches, else 0; invalid if that is
  /// known to be never so.
  x86::Gp worth_streaming(const Stream&);
  /// What was stored around the caches is ordered before the function returns; `flag` is 1 where something was.
  void note_streamed(x86::Gp flag);

  // Memory.
  x86::Mem view_word(const ir::Value* view, int word);
  /// The depth from which on the view exists: what is hoisted of it goes no further out.
  size_t home(const ir::Value* view) const { return static_cast<size_t>(homes_[view->id]); }
  void emit_alloc(const ir::Op&);
  /// In an outlined loop: the arrays of its iterations whose extents do not vary are made once a chunk.
  void emit_allocs_of_chunk(const ir::Op& loop);
  x86::Gp stride_reg(const ir::Value* view, const Stride&);
  /// The address for the current values of the terms.
  x86::Mem address(const Form&);
  x86::Mem address(const ir::Op& access) { return address(address_form(access)); }

  // Checks.
  void emit_check(const ir::Op&);
  /// Where to go when the check fails.
  asmjit::Label failure(const ir::Op& check);
  /// Registers of values, for code that is emitted later: a block that is emitted twice gives its values new ones. What
  /// is computed only there has none.
  using Registers = std::vector<std::pair<const ir::Value*, x86::Reg>>;
  /// Those of the value, or of what it is computed from later.
  void note_registers(const ir::Value&, Registers& to);
  /// Emits the later code.
  template <class F>
  void with_registers(const Registers& registers, F&& emit) {
    for (const auto& [v, r] : registers) regs_[v->id] = r;
    emit();
    for (const auto& [v, r] : registers) regs_[v->id] = r;
  }
  /// A check before another one that is made only where that one fails.
  struct PutOff {
    const ir::Op* check;
    asmjit::Label failed;
    Registers registers;
  };
  /// In the order of the program.
  std::vector<PutOff> put_off_before(const ir::Op& check);
  void emit_poll(const ir::Op&);
  /// What a check or poll tells; empty where it has nothing to tell, or cannot.
  struct State {
    std::vector<ir::Value*> values;
    Registers registers;
    bool empty() const { return values.empty(); }
  };
  State state_of(const ir::Op& poll);
  State state_of(std::span<ir::Value* const>);
  void tell(const State&);
  void write_state(const State&);
  /// What the last poll before a loop that workers share tells: interrupted workers do not know how far the code around
  /// it had come.
  State state_before(const ir::Op& loop);
  void leave_interrupted(const State&, x86::Gp status);
  /// Until the next call emit_poll leaves this one out.
  void leave_out(const ir::Op* poll) { left_out_ = poll; }
  /// Writes the failure except its info and iteration.
  void record_failure(const ir::Op& check, bool has_state);
  void store_info(int index, x86::Gp value);
  void store_iteration(x86::Gp value);
  /// The value as a word; an invalid register stands for a constant.
  void word_of(const ir::Value*, x86::Reg, x86::Gp to);
  /// The iteration variable of the outlined loop, or an invalid register.
  x86::Gp failing_iteration();
  bool in_outlined() const { return root_ != nullptr; }

  // Loops.
  struct Bounds {
    x86::Gp lower, end, trips;
    bool step_known = true;
    int64_t step = 1;
    x86::Gp step_reg;
    int64_t known_trips = -1;
    bool whole = false;                   // from the loop's own lower bound to its upper one
    bool clamped = true;                  // else trips is end - lower where there are no iterations, too
    int64_t least = 0, most = INT64_MAX;  // trips, as the code before has found out
    int64_t divisor = 1;                  // of trips, a power of two
  };
  /// to = count * step;  to += step
  void times_step(x86::Gp to, x86::Gp count, const Bounds&);
  void add_step(x86::Gp to, const Bounds&);
  /// to = iv - step
  void step_back(x86::Gp to, x86::Gp iv, const Bounds&);
  /// Trip count and end of the iteration variable (lower + trips * step). Without `clamp` it is for the caller to find
  /// out whether the loop runs at all.
  Bounds bounds(const ir::Op& loop, bool clamp = true);
  Bounds bounds_here(const ir::Op& loop, bool clamp);
  void emit_for(const ir::Op&);
  /// The loop over these bounds, carried values already in registers; trips may be 0.
  void sequential_loop(const ir::Op&, const Bounds&, std::span<const x86::Reg> carried);
  VectorLoop& vector_loop(const ir::Op&);
  /// The sums go to `packed`, where there is one, and not to `carried`.
  void simd_loop(VectorLoop&, const ir::Op&, Bounds, std::span<const x86::Reg> carried, PackedSums* packed = nullptr);
  void parallel_loop(const ir::Op&, const Bounds&, std::span<const x86::Reg> carried);
  /// The poll of a loop without inner loops, if one for kStrip iterations is enough and can be had: what the poll
  /// stores is known at an iteration's start.
  const ir::Op* strip_poll(const ir::Op& loop) const;
  /// What a poll tells, where something `acts` before it or not, is what it would tell at the iteration's start.
  bool known_at_start(const ir::Value&, const ir::Block& body, bool acts) const;
  /// Emits where the strip of iterations from here ends;
  void strip_end(x86::Gp until, x86::Gp iv, const Bounds&);
  /// where the first one does, in front of the loops in which that is the same.
  x86::Gp first_strip_end(const ir::Op& loop, const Bounds&);
  /// By carried value, what a loop that no `break` leaves makes of it, where no iteration needs that and it is known
  /// after the loop; else null.
  std::vector<const ir::Value*> left_late(const ir::Op& loop) const;
  void emit_while(const ir::Op&);
  void emit_if(const ir::Op&);
  void push_level(const ir::Op& loop);
  /// At the end of the loop's code.
  void pop_level();
  /// Advances running pointers, at the end of an iteration.
  void advance(Level&);
  /// Registers of the current scalar loop's carried values and where its jumps go.
  struct Frame {
    asmjit::Label latch, exit;
    std::vector<x86::Reg> carried;
    std::vector<const ir::Value*> late = {};  // what only a `break` moves there
  };
  /// Moves the terminator's values to the frame's registers and jumps; at the body's end a yield falls through.
  void terminate(const ir::Op&, const Frame&, bool at_end);
  /// May the parallel loop become a function of its own?
  bool can_outline(const ir::Op&) const;
  /// Writes into `to` the combination of partial results a and b of the loop's carried values, a being earlier.
  void combine(const ir::Loop&, std::span<const ir::DType>, std::span<const x86::Reg> a, std::span<const x86::Reg> b);
  /// What a partial result starts from.
  void identity(ir::Combiner, ir::DType, x86::Reg to, x86::Reg init);

  // Pending parallel loops.
  /// Is it a loop that workers share, as a function of its own?
  bool is_shared(const ir::Op&) const;
  /// Is it such a loop, or is one in it that runs before anything there needs to wait for a pending one?
  bool waits_by_itself(const ir::Op&) const;
  /// May the caller leave workers at the loop: is another one next, before anything that touches memory?
  bool may_pend(const ir::Op& loop) const;
  void find_pending_loops(const ir::Block&);
  bool leaves_pending(const ir::Op&) const;
  /// Tells whether one may be pending behind the op.
  bool finish_pending_before(const ir::Op&);
  void finish_pending();
  /// Writes what an interrupt has to tell that comes while the loop is pending.
  void tell_of_pending(const State&);

 private:
  friend class VectorLoop;
  /// What the innermost loop's code uses is to keep its registers before what only outer code uses.
  void prefer_innermost();
  void begin(asmjit::FuncNode*, size_t deepest);
  void finish();
  void emit_cold();
  void write_results(std::span<ir::Value* const>);
  std::vector<x86::Reg> copy_inits(const ir::Op& loop, size_t first);
  void plan_targets(const ir::Block& body, std::span<const x86::Reg> carried);
  /// The value that becomes carried value k at the end of the body, if it may be computed in that value's register.
  const ir::Value* target_value(const ir::Block& body, size_t k, size_t carried) const;
  x86::Reg destination(const ir::Value*);

  void emit_pure(const ir::Op&, x86::Reg to);
  void emit_int(const ir::Op&, x86::Gp to);
  void emit_real(const ir::Op&, x86::Xmm to);
  void emit_bool(const ir::Op&, x86::Gp to);
  void emit_select(const ir::Op&, x86::Reg to);
  void emit_cast(ir::DType to_type, ir::DType from_type, x86::Reg to, const ir::Value* from);
  void int_arithmetic(ir::Opcode, ir::DType, x86::Gp to, x86::Gp a, x86::Gp b);
  void int_binary(ir::Opcode, ir::DType, x86::Gp to, x86::Gp a, const asmjit::Operand& b);
  void int_divide(ir::Opcode, ir::DType, x86::Gp to, x86::Gp a, x86::Gp b);
  void divide_by_constant(ir::Opcode, ir::DType, x86::Gp to, x86::Gp a, int64_t divisor);
  void shift(ir::Opcode, ir::DType, x86::Gp to, x86::Gp a, const ir::Value* count);
  void real_arithmetic(ir::Opcode, ir::DType, x86::Xmm to, x86::Xmm a, const asmjit::Operand& b);
  bool fused(const ir::Op&, x86::Xmm to);
  asmjit::Operand gp_or_imm(const ir::Value*);
  Flags compare(const ir::Op&);
  /// NaN, infinite or finite.
  Flags classify(const ir::Op&);
  /// A number that is known not to be negative: an extent, or a constant.
  bool is_extent(const ir::Value*) const;
  /// The test of an index that is one comparison of unsigned words.
  std::optional<ir::IndexTest> index_test(const ir::Value* condition) const;
  /// The wrap whose result the check tests first of all, so that it can be left to the check; or null.
  const ir::Op* tested_wrap(const ir::Op& check) const;
  bool is_wrapped_by_its_test(const ir::Op& wrap) const;
  /// The sum, difference or product behind the check, which is that it has 64 bits, so that one instruction makes and
  /// tests it; or null.
  const ir::Op* tested_result(const ir::Op& check) const;
  /// Wraps an index, or jumps where it is out of range: in its own register where nothing but the check needs it as it
  /// was.
  void wrap_or_jump(const ir::Op& wrap, const ir::Op& check, asmjit::Label failed);
  bool may_wrap_in_place(const ir::Op& wrap, const ir::Op& check) const;
  Flags overflow(const ir::Op& op) { return overflow(op, cc_.newGpq()); }
  /// The same, and `to` is the result.
  Flags overflow(const ir::Op&, x86::Gp to);
  void set_bool(x86::Gp to, Flags);
  void jump(Flags, bool when, asmjit::Label to);
  x86::Gp partial_address(const Form&, size_t depth);
  x86::Gp step_of(const Form&, const Stride&, Level&);
  x86::Gp running_pointer(const Form&, const Stride&, size_t depth);
  x86::Gp add_term(x86::Gp base, const Form&, const ir::Value* term, const Stride&);
  x86::Gp with_term(x86::Gp base, const Form&, const ir::Value* term, const Stride&);
  bool may_fuse(const ir::Op&) const;

  Module& m_;
  Compiler& cc_;
  asmjit::FuncNode* node_ = nullptr;
  const ir::Op* root_ = nullptr;  // the outlined loop
  size_t deepest_ = 0;            // loops around the function's deepest code
  bool alone_ = true;             // atomics need not be indivisible
  x86::Gp context_, args_, results_, flag_;
  const ir::Op* left_out_ = nullptr;
  std::unordered_set<const ir::Op*> pending_loops_;  // those that may pend
  bool may_be_pending_ = false;                      // is there one at the cursor?
  x86::Mem streamed_;  // dword: were there stores around the caches? None: there are none in the code
  std::vector<x86::Reg> regs_;
  std::vector<int> depths_;
  std::vector<int> homes_;                       // by the view's id
  std::unordered_map<uint32_t, int> own_words_;  // in an outlined loop: words of the arrays made there, in own_
  x86::Mem own_;
  std::unordered_set<const ir::Op*> made_;   // allocs whose code stands in front of their place
  std::unordered_set<const ir::Op*> ahead_;  // that have their code already, with a test in front of them
  const ir::Op* emitted_to_ = nullptr;       // what comes before it has its code: it went with a loop's sums
  std::vector<x86::Reg> targets_;            // registers chosen ahead for values that become a carried value
  std::vector<Level> levels_;
  std::vector<Frame> frames_;
  std::vector<std::pair<asmjit::Label, std::function<void()>>> cold_;
  std::vector<std::pair<asmjit::BaseNode*, asmjit::BaseNode*>> aside_;  // first and last nodes
  std::map<AddressKey, x86::Gp> strides_;
  std::map<AddressKey, x86::Gp> sums_;  // parts of addresses that were computed on every way to here
  VectorLoop* vector_ = nullptr;
  std::vector<std::shared_ptr<VectorLoop>> vector_loops_;
};

}  // namespace appy::cpu
