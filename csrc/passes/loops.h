// What the loop passes share: uses, the exits of a loop, trip counts, effects.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"

namespace appy::passes {

/// One operand position.
struct Use {
  ir::Op* op = nullptr;
  size_t operand = 0;
};

/// Every use of every value, as of construction.
class Uses {
 public:
  explicit Uses(const ir::Graph&);
  std::span<const Use> of(const ir::Value&) const;

 private:
  std::vector<Use> uses_;       // those of one value in a row
  std::vector<uint32_t> ends_;  // by Value::id
};

/// The same for one value, which only the block uses.
int64_t count_uses(const ir::Block&, const ir::Value&);
/// The value is used, not only told by the states of checks and polls.
bool is_used(const Uses&, const ir::Value&);

bool is_for(const ir::Op&);
bool is_loop(const ir::Op&);
/// A `for` that may run out of order.
bool has_permission(const ir::Op&);
/// The loop, or one around it, may run out of order: nobody can tell how far it had come when it was interrupted.
bool interruptible_anywhere(const ir::Op& loop);
/// Nothing in the loop checks, allocates, waits for others or leaves a loop early, and no poll in it tells how far it
/// had come: its loads and stores alone keep it in order.
bool ordered_by_accesses_only(const ir::Op& loop);
/// A `for` of exactly one iteration, by its constants.
bool runs_once(const ir::Op&);
/// A loop for workers of one iteration, which no other one divides: a block of a device runs it.
bool is_one_block(const ir::Op& loop);
/// The op may run in lanes: a loop around it is `simd`.
bool in_lanes(const ir::Op&);
/// Ops that a select may execute in vain, and ops that count as one of them.
constexpr int kSpeculated = 6;
bool is_cheap(const ir::Op& pure);
/// Index of the first init among a loop's operands, and of the first carried value among its body's arguments.
size_t first_init(const ir::Op& loop);
size_t first_carried(const ir::Op& loop);
size_t carried_count(const ir::Op& loop);
ir::Block& body_of(const ir::Op& loop);
ir::Value* induction(const ir::Op& for_loop);
/// Two `for` loops with the same bounds and step.
bool count_alike(const ir::Op& a, const ir::Op& b);

/// The terminators that end an iteration of the loop: its yield and continues, and the breaks that leave it.
struct Exits {
  InlineVector<ir::Op*, 2> next;
  InlineVector<ir::Op*, 2> breaks;
};
Exits exits_of(const ir::Op& loop);
/// Has it no `break` and no `continue`?
bool left_by_yield_only(const ir::Op& loop);
/// A `for` by steps of one that ends where it says, and is no part of a nest that is collapsed.
bool is_simple_for(const ir::Op&);
/// Nothing in the loop makes arrays, leaves it, or is somebody else's to see at once.
bool has_plain_body(const ir::Op& loop, bool may_check = false);

/// The value of an integer or bool constant.
std::optional<int64_t> constant(const ir::Value&);
/// One value, or two constants of one type and number.
bool is_same_value(const ir::Value&, const ir::Value&);

/// Ops with this effect in the block or nested in it.
bool contains(const ir::Block&, ir::Effect);
/// It computes or loads, maybe under a condition, and does nothing else.
bool only_computes(const ir::Op&);
/// A store or atomic in the block or nested in it.
bool writes(const ir::Block&);
/// A store or atomic that `op` executes.
bool writes(const ir::Op&);
/// The same, but for stores to temporaries: nobody sees those once the region is left.
bool writes_lasting(const ir::Op&);
/// Each iteration of `loop` has an array of its own under this name.
bool is_private(const ir::Value& view, const ir::Op& loop);
/// A loop stands in this one.
bool has_inner_loop(const ir::Op& loop);
/// Adds the value's op to the set, and what that needs of the block, but for blocks inside.
void add_needed(const ir::Value&, const ir::Block&, std::set<const ir::Op*>&);
/// True if `op` stands in `block` or is nested in it.
bool is_inside(const ir::Op& op, const ir::Block& block);
/// The value is visible just before `op`.
bool visible_before(const ir::Value&, const ir::Op& op);
/// The op among `block`'s own that is, or contains, `op`.
ir::Op* ancestor_in(const ir::Block& block, ir::Op& op);

/// True if there was one.
bool remove_polls(ir::Block&);

/// Emits the number of iterations of a `for` (0 when it does not run).
ir::Value* emit_trips(ir::Builder&, const ir::Op& for_loop);
/// Emits the variable of a `for` with a known step in its n-th iteration.
ir::Value* emit_iteration(ir::Builder&, const ir::Op& for_loop, ir::Value* n);
/// Emits high - low, or 0 where that is negative: the iterations of a loop that counts by one.
ir::Value* emit_distance(ir::Builder&, ir::Value* low, ir::Value* high);
/// Emits n / by, rounded up.
ir::Value* emit_ceiling(ir::Builder&, ir::Value* n, ir::Value* by);
/// Emits the least multiple of a number that is no less than n.
ir::Value* emit_multiple(ir::Builder&, ir::Value* n, int64_t of);
/// Emits a loop by steps of one that carries nothing; `fill(variable)` emits its body. The builder goes on behind it.
template <class F>
ir::Op* emit_loop(ir::Builder& b, ir::Value* low, ir::Value* high, ir::Loop kind, F&& fill) {
  ir::Op* loop = b.for_loop(low, high, b.i64(1), {}, std::move(kind));
  b.set_block(&body_of(*loop));
  fill(induction(*loop));
  b.yield({});
  loop->next ? b.set_before(loop->next) : b.set_block(loop->parent);
  return loop;
}
/// Emits an `if` that has no results; `then()` and `otherwise()` emit its arms. The builder goes on behind it.
template <class Then, class Else>
void emit_if(ir::Builder& b, ir::Value* condition, Then&& then, Else&& otherwise) {
  const ir::Op* choice = b.if_op(condition, {});
  b.set_block(choice->blocks[0]);
  then();
  b.yield({});
  b.set_block(choice->blocks[1]);
  otherwise();
  b.yield({});
  choice->next ? b.set_before(choice->next) : b.set_block(choice->parent);
}
/// Emits a condition: the `for` runs at least once.
ir::Value* emit_runs(ir::Builder&, const ir::Op& for_loop);

/// Appends a carried value to a loop: init, argument, result. The caller appends to every exit.
struct NewCarried {
  ir::Value* arg;
  ir::Value* result;
};
NewCarried append_carried(ir::Op& loop, ir::Value* init, ir::Carried, std::string name);

/// "line 12", with the file where the graph names several; "an unknown line" for none.
std::string line_of(const ir::Graph&, ir::LocId);
void remark(ir::Graph&, ir::Severity, std::string_view stage, ir::LocId, std::string text);

/// Two loops of a perfect nest, beside what computes for the inner one, change places; false where the inner one's
/// bounds depend on the outer one.
bool swap_loops(ir::Op& outer, ir::Op& inner);
/// Its parts: what computes for the inner loop goes into it;
void move_into(ir::Op& outer, ir::Op& inner);
/// and each loop gets the other one's variable, permissions and place in the source. Bounds stay as they are.
void swap_roles(ir::Op& outer, ir::Op& inner);

/// Puts all of a block but its terminator in front of an op. The first that was moved, or null.
ir::Op* move_before(ir::Block& from, ir::Op& op);

/// All `for` loops, outermost first.
std::vector<ir::Op*> for_loops(ir::Graph&);

/// Which of two versions of a loop the entry wants that the graph is given; others decline (ir/sizes.h). Nothing where
/// there is none, or where it takes more than arguments.
std::optional<bool> settle(ir::Graph&, const ir::Value& condition);

/// Loop versioning: an `if` takes the loop's place and has its results; the loop itself stands in the second arm. The
/// first one, with its yield, is left to the caller. The builder stands before the loop, and nowhere afterwards.
ir::Op* make_versions(ir::Builder&, ir::Op& loop, ir::Value* condition);
/// The same, and `fill` makes the first arm; but where the entry that the graph is given decides, there is one version,
/// and no `if`. False where that is the loop as written: then nobody fills anything.
bool with_versions(ir::Builder&, ir::Op& loop, ir::Value* condition, const std::function<void(ir::Op& choice)>& fill);

}  // namespace appy::passes
