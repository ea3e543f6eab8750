// Copies strips of columns that loops inside go over again and again:
//
//   for j in lanes: for k: { for i: s += a[i, j] * ...;  for i: a[i, j] -= ... }
//
// From element to element of a column it is a whole row: each lies in a page of its own, and rows of some lengths push
// each other out of the first cache. So the columns are cut into strips as wide as the lanes compute at a time; what a
// strip has of the array is copied next to each other before the loops inside, and back behind them. It is the copying
// of Lam, Rothberg and Wolf ("The cache performance and optimizations of blocked algorithms", 1991).
//
// Whether it pays depends on extents: where the loops are short, or the rows near each other, the loop runs as written,
// which is emitted beside it.
//
// Rules for editors:
// 1. What is copied back is the strip as it was or as the loops made it, so nobody else may write there: every access
//    of the array in the loop is the iteration's own column.
// 2. What is copied is in bounds because a pass inside certainly goes over it.
// 3. An interrupt finds whole columns: the only poll is behind the copy back, so what is between the two is short.

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/subscripts.h"
#include "passes/tile_loop.h"

namespace appy::passes {

using ir::Builder;
using ir::Combiner;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "strips";
/// Vectors that a group of lanes has: a strip is as wide. Registers are as many as their halves have bytes.
constexpr int64_t kVectors = 4;
/// Times that the loops inside go over the strip, at least, and bytes that lie between its first row and its last one.
constexpr int64_t kLeastTrips = 16, kLeastBytes = 512 * 1024;
/// Rows that they go over in all, at most: some 10 ms, in which no interrupt is answered.
constexpr int64_t kMostRows = 1 << 20;
/// Arrays that are copied: more would not stay in the cache together. What is only read, sums over matrices read again
/// by blocks (`blocks`).
constexpr size_t kMostArrays = 2;

/// The columns of an array that a loop in lanes goes over, one an iteration.
struct Columns {
  Value* view = nullptr;
  size_t down = 0;  // the dimension along the column
  std::vector<Op*> accesses;
  Value* rows = nullptr;        // how many, before the loop
  Value* near = nullptr;        // the copy
  const Op* certain = nullptr;  // the access of a pass that runs in each iteration of the loop around the passes
};

const Op* loop_over(const Op& access, const Op& around) {
  const Op* pass = ir::enclosing_loop(*access.parent);
  return pass && pass != &around ? pass : nullptr;
}

class Strips {
 public:
  explicit Strips(Op& loop) : graph_(*loop.graph), loop_(loop), b_(graph_) {}

  bool find() {
    if (!is_simple_for(loop_) || !loop_.loop->simd || in_lanes(loop_) || !ordered_by_accesses_only(loop_) ||
        graph_.may_alias || !may_be_divided())
      return false;
    for (Op* op = body_of(loop_).first; op; op = op->next) {
      if (!is_for(*op) || !has_inner_loop(*op)) continue;
      if (again_) return false;
      again_ = op;
    }
    if (!again_ || !is_simple_for(*again_) || !is_outside(*again_)) return false;
    for (Value* view : views()) {
      if (auto columns = columns_of(*view)) arrays_.push_back(std::move(*columns));
    }
    return !arrays_.empty() && arrays_.size() <= kMostArrays && find_copied() && is_short() && find_polls();
  }

  void run() {
    remark(graph_, ir::Severity::note, kStage, loop_.loc,
           "where columns are long, the loop at " + line_of(graph_, loop_.loc) + " copies strips of '" +
               arrays_.front().view->name + "', over which the one at " + line_of(graph_, again_->loc) +
               " goes again and again");
    b_.set_loc(loop_.loc);
    b_.set_before(&loop_);
    with_versions(b_, loop_, pays(), [&](Op& choice) {
      // The loop itself becomes the one over a strip, for the accesses and polls that were found are its own.
      ir::Block& otherwise = *choice.blocks[1];
      Op* written = Copier(graph_).copy(loop_);
      otherwise.insert_before(&loop_, written);
      otherwise.remove(&loop_);
      otherwise.last->operands.assign(written->results.begin(), written->results.end());
      b_.set_block(choice.blocks[0]);
      divide();
    });
  }

 private:
  bool may_be_divided() const {
    return std::all_of(loop_.loop->carried.begin(), loop_.loop->carried.end(), [](const ir::Carried& c) {
      return c.leader < 0 && c.tie < 0 && c.combiner != Combiner::recur_;
    });
  }
  bool is_outside(const Op& inner) const {
    return std::all_of(inner.operands.begin(), inner.operands.begin() + 2,
                       [&](const Value* v) { return visible_before(*v, loop_); });
  }

  std::vector<Value*> views() {
    std::vector<Value*> found;
    ir::walk(body_of(loop_), [&](Op& op) {
      if (is_access(op) && std::find(found.begin(), found.end(), op.view()) == found.end()) found.push_back(op.view());
    });
    return found;
  }

  std::optional<Columns> columns_of(Value& view) {
    Columns columns;
    columns.view = &view;
    if (!visible_before(view, loop_) || view.type.rank < 2 || view.type.layout != ir::Layout::c) return {};
    bool fit = true, written = false;
    ir::walk(body_of(loop_), [&](Op& op) {
      if (!is_access(op) || op.view() != &view) return;
      fit = fit && add(op, columns);
      written |= op.code == Opcode::store_;
    });
    if (!fit || !written || !columns.certain) return {};
    return columns;
  }

  bool add(Op& access, Columns& columns) const {
    const Op* pass = loop_over(access, loop_);
    if (!pass || !is_simple_for(*pass) || !is_outside(*pass) || !runs_along(access, *induction(loop_))) return false;
    const size_t rank = access.access->offset.size();
    if (columns.accesses.empty()) {
      while (columns.down + 1 < rank && row(access, columns.down).coef(*induction(*pass)) == 0) ++columns.down;
      if (columns.down + 1 == rank || row(access, columns.down).coef(*induction(*pass)) != 1) return false;
    }
    for (const Value* term : access.terms()) {
      if (term != induction(loop_) && term != induction(*pass) && !visible_before(*term, loop_)) return false;
    }
    for (size_t d = 0; d < rank; ++d) {
      if ((row(access, d).coef(*induction(*pass)) != 0) != (d == columns.down)) return false;
    }
    if (!columns.accesses.empty()) {
      const Op& first = *columns.accesses.front();
      const Op& other = *loop_over(first, loop_);
      if (!count_alike(*pass, other) || !same_element_in(access, *pass, first, other)) return false;
    }
    columns.accesses.push_back(&access);
    if (access.parent == &body_of(*pass) && pass->parent == &body_of(*again_)) columns.certain = &access;
    return access.code == Opcode::load_ || access.code == Opcode::store_;
  }

  /// What stands between the copies: the ops of the loop's body from the first one that accesses a strip to the last.
  bool find_copied() {
    for (Op* op = body_of(loop_).first; op; op = op->next) {
      const bool accesses = std::ranges::any_of(arrays_, [&](const Columns& columns) {
        return std::ranges::any_of(columns.accesses,
                                   [&](Op* access) { return ancestor_in(body_of(loop_), *access) == op; });
      });
      if (!accesses) continue;
      if (!first_) first_ = op;
      last_ = op;
    }
    return first_;
  }
  template <class F>
  void each_between(F&& visit) const {
    for (Op* op = first_; op != last_->next; op = op->next) {
      visit(*op);
      for (ir::Block* block : op->blocks) ir::walk(*block, visit);
    }
  }

  /// What is between the copies goes over their rows, and nothing else takes time there.
  bool is_short() const {
    bool is_short = true;
    each_between([&](const Op& op) {
      if (!is_loop(op) || &op == again_) return;
      is_short &= is_simple_for(op) && !has_inner_loop(op) && std::ranges::any_of(arrays_, [&](const Columns& columns) {
                    return count_alike(op, *loop_over(*columns.certain, loop_));
                  });
    });
    return is_short;
  }

  /// The polls between the copies; false where one tells of what is known only there.
  bool find_polls() {
    each_between([&](Op& op) {
      if (op.code == Opcode::poll_) polls_.push_back(&op);
    });
    return std::ranges::all_of(polls_, [&](const Op* poll) {
      return std::ranges::all_of(poll->operands, [&](const Value* v) { return visible_before(*v, loop_); });
    });
  }

  /// The loops inside go over the strips often enough, but not for long, and the rows are far enough from each other.
  Value* pays() {
    Value *pays = nullptr, *trips = emit_trips(b_, *again_);
    const auto demand = [&](Value* one) { pays = pays ? b_.op(Opcode::and_, {pays, one}) : one; };
    demand(b_.op(Opcode::ge_, {trips, b_.i64(kLeastTrips)}));
    demand(b_.op(Opcode::le_, {trips, b_.i64(kMostRows)}));  // so that no product below overflows
    for (Columns& columns : arrays_) {
      columns.rows = emit_trips(b_, *loop_over(*columns.certain, loop_));
      demand(b_.op(Opcode::le_, {b_.op(Opcode::mul_, {trips, columns.rows}), b_.i64(kMostRows)}));
      Value* bytes = b_.op(Opcode::mul_, {columns.rows, b_.i64(ir::size_of(columns.view->type.dtype))});
      for (size_t d = columns.down + 1; d < columns.certain->access->offset.size(); ++d) {
        bytes = b_.op(Opcode::mul_, {bytes, b_.dim(columns.view, static_cast<int>(d))});
      }
      demand(b_.op(Opcode::ge_, {bytes, b_.i64(kLeastBytes)}));
    }
    return pays;
  }

  int64_t width() const {
    int64_t size = 1;
    for (const Columns& columns : arrays_) size = std::max<int64_t>(size, ir::size_of(columns.view->type.dtype));
    return kVectors * 2 * graph_.registers / size;
  }

  void divide() {
    Value *low = loop_.operands[0], *high = loop_.operands[1], *wide = b_.i64(width());
    ir::Loop kind = *loop_.loop;
    kind.simd = false;
    const std::vector<Value*> inits(loop_.operands.begin() + 3, loop_.operands.end());
    Value* count = emit_ceiling(b_, emit_distance(b_, low, high), wide);
    Op* strips = b_.for_loop(b_.i64(0), count, b_.i64(1), inits, std::move(kind));
    b_.set_block(&body_of(*strips));
    Value* from = b_.op(Opcode::add_, {low, b_.op(Opcode::mul_, {induction(*strips), wide})});
    Value* until = b_.op(Opcode::pymin_, {b_.op(Opcode::add_, {from, wide}), high});
    for (Columns& columns : arrays_) {
      Value* const extents[] = {columns.rows, wide};
      columns.near = b_.alloc({columns.view->type.dtype, 2, ir::Layout::c}, extents);
      columns.near->name = columns.view->name;
    }
    put_into(*strips, loop_, from, until);
    for (size_t k = 0; k < inits.size(); ++k) {
      // No strip is empty, so that the last value is one of its own.
      if (loop_.loop->carried[k].combiner == Combiner::last_) loop_.operands[3 + k] = inits[k];
    }
    loop_.loop->parallel = false;
    loop_.loop->schedule = ir::Schedule::automatic;
    b_.yield(loop_.results);
    for (const Columns& columns : arrays_) use_near(columns, from);
    if (!polls_.empty()) {
      Op* poll = Copier(graph_).copy(*polls_.front());
      for (Op* each : polls_) each->parent->remove(each);
      body_of(loop_).insert_before(body_of(loop_).last, poll);
    }
    b_.set_block(strips->parent);
    b_.yield(strips->results);
  }

  void use_near(const Columns& columns, Value* from) {
    const Op& pass = *loop_over(*columns.certain, loop_);
    Value *low = pass.operands[0], *high = pass.operands[1], *column = induction(loop_);
    // The access's own subscripts, before it becomes one of the copy.
    Op* far = graph_.new_op(Opcode::load_, loop_.loc);
    far->operands.assign(columns.certain->operands.begin() + (columns.certain->code == Opcode::load_ ? 0 : 1),
                         columns.certain->operands.end());
    far->access = std::make_unique<ir::Access>(*columns.certain->access);
    const Value* down = induction(pass);
    for (Op* access : columns.accesses) {
      become_near(*access, *columns.near, induction(*loop_over(*access, loop_)), low, column, from);
    }
    const auto copy = [&](bool back) {
      emit_loop(b_, low, high, {}, [&](Value* row) {
        Op *load = graph_.new_op(Opcode::load_, loop_.loc), *store = graph_.new_op(Opcode::store_, loop_.loc);
        Op &of_array = back ? *store : *load, &of_copy = back ? *load : *store;
        Value* element = ir::add_result(*load, {columns.view->type.dtype});
        store->operands = {element};
        for (Value* v : far->operands) of_array.operands.push_back(v == down ? row : v);
        of_array.access = std::make_unique<ir::Access>(*far->access);
        become_near(of_copy, *columns.near, row, low, column, from);
        b_.block()->append(load);
        b_.block()->append(store);
      });
    };
    b_.set_before(first_);
    copy(false);
    b_.set_before(last_->next);
    copy(true);
  }

  /// The load or store is of copy[row - low, column - from].
  static void become_near(Op& access, Value& copy, Value* row, Value* low, Value* column, Value* from) {
    access.operands.resize(access.code == Opcode::load_ ? 0 : 1);
    access.operands.insert(access.operands.end(), {&copy, row, low, column, from});
    access.access = std::make_unique<ir::Access>();
    access.access->terms = 4;
    access.access->offset = {0, 0};
    access.access->coef = {{1, -1, 0, 0}, {0, 0, 1, -1}};
  }

  ir::Graph& graph_;
  Op& loop_;
  Builder b_;
  Op* again_ = nullptr;  // the loop around the passes
  std::vector<Columns> arrays_;
  Op *first_ = nullptr, *last_ = nullptr;  // of the loop's body: in front and behind the strips are copied
  std::vector<Op*> polls_;                 // from the first one to the last
};

}  // namespace

bool strips(ir::Graph& graph) {
  std::vector<Strips> found;
  for (Op* loop : for_loops(graph)) {
    if (Strips strips(*loop); strips.find()) found.push_back(std::move(strips));
  }
  for (Strips& strips : found) strips.run();  // none of them stands in another
  return !found.empty();
}

}  // namespace appy::passes
