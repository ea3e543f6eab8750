// What one worker touches again and again, near to it. A loop that runs in order by one worker (the tile of a
// recurrence) waits in each iteration for what it loads; so the part of every array that it loads from is copied to an
// array of the worker's own first, by all of its lanes at once. Stores go to both: the array has what Python would see
// at every time.
//
// It runs behind `distribute`, which says whose the loop is. A backend has arrays of workers' own in fast memory where
// they fit.
//
// Rules for editors:
// 1. Copied is what lies in the box of all subscripts and in the array. Elements of the box that nobody loads cost a
//    copy; what is loaded lies in it.
// 2. All accesses of an array that the loop writes go through the copy, or none.

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/recurrence.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Builder;
using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Bytes of all copies of a loop: a block, and tables of its own, fit in a multiprocessor.
constexpr int64_t kMostBytes = 160 * 1024;
constexpr int64_t kMostElements = 1 << 14;

/// The subscripts of accesses, dimension by dimension: [low, high], in values from outside of the loop.
struct Box {
  Value* view = nullptr;
  std::vector<Affine> low, high;
  std::vector<int64_t> extent;  // at most
  std::vector<Op*> accesses;
  int64_t bytes = 0;
};

class Stager {
 public:
  explicit Stager(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    if (graph_.may_alias) return false;
    std::vector<Op*> loops;
    ir::walk(*graph_.body, [&](Op& worker) {
      if (!is_for(worker) || worker.mapping != Mapping::workers || !runs_once(worker)) return;
      for (Op* op = body_of(worker).first; op; op = op->next) {
        if (is_for(*op) && op->mapping == Mapping::none && op->loop->threads == 1) loops.push_back(op);
      }
    });
    bool changed = false;
    for (Op* loop : loops) changed |= stage(*loop);
    return changed;
  }

 private:
  bool stage(Op& loop) {
    Ranges ranges(graph_);
    if (constant(*loop.operands[2]) != 1) return false;
    from_ = ranges.affine(*loop.operands[0], loop);
    until_ = ranges.affine(*loop.operands[1], loop);
    const auto trips = most_trips(ranges, loop);
    if (!trips || *trips > kMostElements) return false;
    std::vector<Box> boxes;
    int64_t bytes = 0;
    for (Value* view : loaded_views(loop)) {
      auto box = box_of(ranges, loop, *view, *trips);
      if (!box || bytes + box->bytes > kMostBytes) continue;
      bytes += box->bytes;
      boxes.push_back(std::move(*box));
    }
    Builder b(graph_);
    b.set_loc(loop.loc);
    b.set_before(&loop);
    for (const Box& box : boxes) copy(ranges, b, loop, box);
    return !boxes.empty();
  }

  static std::vector<Value*> loaded_views(const Op& loop) {
    std::vector<Value*> found;
    ir::walk(body_of(loop), [&](const Op& op) {
      if (op.code != Opcode::load_ || !ir::defined_outside(*op.view(), body_of(loop))) return;
      if (std::find(found.begin(), found.end(), op.view()) == found.end()) found.push_back(op.view());
    });
    return found;
  }

  /// The least or greatest value of a subscript in the loop, in values from outside of it.
  std::optional<Affine> outermost(Ranges& ranges, const Op& access, size_t d, bool least, const Op& loop) const {
    auto sum = extreme(ranges, row_at(ranges, access, d, access), least, loop);
    if (!sum) return {};
    const Wide step = sum->coef(*induction(loop));
    sum->add(*induction(loop), -step);
    if ((step > 0) == least) {
      sum->add(from_, step);
    } else {
      sum->add(until_, step);
      sum->constant -= step;
    }
    return sum;
  }

  /// Extends the bounds by those of the access; false, with nothing changed, where the difference is not known.
  bool add(Ranges& ranges, const Op& loop, Op& access, Box& box) const {
    const size_t rank = access.access->offset.size();
    std::vector<Affine> low(rank), high(rank);
    for (size_t d = 0; d < rank; ++d) {
      const auto least = outermost(ranges, access, d, true, loop), greatest = outermost(ranges, access, d, false, loop);
      if (!least || !greatest) return false;
      low[d] = *least;
      high[d] = *greatest;
      if (box.accesses.empty()) continue;
      Affine below = low[d], above = high[d];
      below.add(box.low[d], -1);
      above.add(box.high[d], -1);
      if (!below.is_constant() || !above.is_constant()) return false;
      if (below.constant > 0) low[d] = box.low[d];
      if (above.constant < 0) high[d] = box.high[d];
    }
    box.low = std::move(low);
    box.high = std::move(high);
    box.accesses.push_back(&access);
    return true;
  }

  std::optional<Box> box_of(Ranges& ranges, const Op& loop, Value& view, int64_t trips) const {
    Box box;
    box.view = &view;
    bool fits = true, written = false;
    ir::walk(body_of(loop), [&](Op& op) {
      if (!is_access(op) || op.view() != &view) return;
      written |= op.code != Opcode::load_;
      fits &= op.code != Opcode::atomic_ && add(ranges, loop, op, box);
    });
    if (box.accesses.empty() || (written && !fits)) return {};
    int64_t elements = 1;
    for (size_t d = 0; d < box.low.size(); ++d) {
      Affine span = box.high[d];
      span.add(box.low[d], -1);
      span.constant += 1;
      if (!span.is_constant()) {
        span.add(until_, -1);
        span.add(from_, 1);
        span.constant += trips;
      }
      if (!span.is_constant() || span.constant < 1 || span.constant > kMostElements) return {};
      box.extent.push_back(static_cast<int64_t>(span.constant));
      elements *= box.extent.back();
      if (elements > kMostElements) return {};
    }
    box.bytes = elements / box.extent.back() * pitch(box) * ir::size_of(view.type.dtype);
    return box;
  }

  /// Elements from row to row: columns lie in different banks of a memory that has as many as a power of two.
  static int64_t pitch(const Box& box) {
    const int64_t row = box.extent.back();
    return box.extent.size() > 1 && row % 2 == 0 ? row + 1 : row;
  }

  /// a <= b before the loop, whichever of two values its end is the lesser of.
  static bool proves_le(Ranges& ranges, Affine a, const Affine& b, const Op& loop) {
    a.add(b, -1);
    const Value& until = *loop.operands[1];
    const Wide step = a.coef(until);
    if (step >= 0 || !until.op || until.op->code != Opcode::pymin_) return ranges.proves_nonpositive(a, loop);
    a.add(until, -step);
    return std::all_of(until.op->operands.begin(), until.op->operands.end(), [&](const Value* end) {
      Affine with = a;
      with.add(ranges.affine(*end, loop), step);
      return ranges.proves_nonpositive(with, loop);
    });
  }

  void copy(Ranges& ranges, Builder& b, Op& loop, const Box& box) {
    const size_t rank = box.extent.size();
    std::vector<Value*> begin(rank), last(rank), extents;
    Value* any = nullptr;
    for (size_t d = 0; d < rank; ++d) {
      const Affine &low = box.low[d], &high = box.high[d];
      Value* dim = b.dim(box.view, static_cast<int>(d));
      begin[d] = emit(b, low);
      if (!proves_le(ranges, {}, low, loop)) begin[d] = b.op(Opcode::pymax_, {begin[d], b.i64(0)});
      last[d] = emit(b, high);
      Affine before_end = ranges.affine(*dim, loop);
      before_end.constant -= 1;
      const bool inside = proves_le(ranges, high, before_end, loop);
      if (!inside) last[d] = b.op(Opcode::pymin_, {last[d], b.op(Opcode::sub_, {dim, b.i64(1)})});
      if (!inside || !proves_le(ranges, low, high, loop) || !proves_le(ranges, {}, high, loop)) {
        Value* some = b.op(Opcode::le_, {begin[d], last[d]});
        any = any ? b.op(Opcode::and_, {any, some}) : some;
      }
      extents.push_back(b.i64(d + 1 < rank ? box.extent[d] : pitch(box)));
    }
    ir::Type type = box.view->type;
    type.layout = ir::Layout::c;
    Value* near = b.alloc(type, extents);
    near->name = box.view->name;
    if (any) {
      Op* condition = b.if_op(any, {});
      b.set_block(condition->blocks[1]);
      b.yield({});
      b.set_block(condition->blocks[0]);
      fill(b, box, *near, begin, last);
      b.yield({});
      b.set_before(&loop);
    } else {
      fill(b, box, *near, begin, last);
    }
    for (Op* access : box.accesses) redirect(*access, *near, begin);
  }

  /// All elements at once: an index beyond the last one is that of the last one.
  static void fill(Builder& b, const Box& box, Value& near, const std::vector<Value*>& begin,
                   const std::vector<Value*>& last) {
    const size_t rank = box.extent.size();
    int64_t elements = 1;
    for (int64_t extent : box.extent) elements *= extent;
    ir::Loop control;
    control.parallel = control.simd = true;
    Op* lanes = b.for_loop(b.i64(0), b.i64(elements), b.i64(1), {}, std::move(control));
    lanes->mapping = Mapping::lanes;
    ir::Block* const around = b.block();
    b.set_block(&body_of(*lanes));
    std::vector<Value*> to(rank), at(rank);
    Value* rest = induction(*lanes);
    for (size_t d = rank; d-- > 1;) {
      const int64_t n = box.extent[d];
      if (std::has_single_bit(static_cast<uint64_t>(n))) {
        to[d] = b.op(Opcode::and_, {rest, b.i64(n - 1)});
        rest = b.op(Opcode::shr_, {rest, b.i64(std::countr_zero(static_cast<uint64_t>(n)))});
        continue;
      }
      Value* above = b.op(Opcode::floordiv_, {rest, b.i64(n)});
      to[d] = b.op(Opcode::sub_, {rest, b.op(Opcode::mul_, {above, b.i64(n)})});
      rest = above;
    }
    to[0] = rest;
    for (size_t d = 0; d < rank; ++d) at[d] = b.op(Opcode::pymin_, {b.op(Opcode::add_, {begin[d], to[d]}), last[d]});
    b.store(b.load(box.view, at), &near, to);
    b.yield({});
    lanes->next ? b.set_before(lanes->next) : b.set_block(around);
  }

  void redirect(Op& access, Value& near, const std::vector<Value*>& begin) {
    const size_t rank = begin.size(), terms = static_cast<size_t>(access.access->terms);
    Op* made = graph_.new_op(access.code, access.loc);
    made->operands = access.operands;
    made->operands[access.code == Opcode::load_ ? 0 : 1] = &near;
    made->operands.insert(made->operands.end(), begin.begin(), begin.end());
    made->access = std::make_unique<ir::Access>(*access.access);
    made->access->terms = static_cast<int>(terms + rank);
    for (size_t d = 0; d < rank; ++d) {
      made->access->coef[d].resize(terms + rank);
      made->access->coef[d][terms + d] = -1;
    }
    access.parent->insert_before(access.next, made);
    if (access.code != Opcode::load_) return;
    Value* was = access.result();
    Value* loaded = ir::add_result(*made, was->type);
    loaded->name = was->name;
    std::vector<Value*> to(graph_.value_count());
    to[was->id] = loaded;
    ir::replace_uses(graph_, to);
    access.parent->remove(&access);
  }

  ir::Graph& graph_;
  Affine from_, until_;  // of the loop
};

}  // namespace

bool stage(ir::Graph& graph) { return Stager(graph).run(); }

}  // namespace appy::passes
