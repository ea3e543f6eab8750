// Padding of arrays that a loop over time goes through again and again. Where rows are not a whole number of lines of
// the cache, each row lies otherwise in its lines than its neighbours do, and most vectors that are loaded or stored
// lie in two of them. So such a loop works on copies whose rows are whole lines, of which the first element that is
// stored begins one, and what it has stored goes back behind it. It is the padding within arrays of Rivera and Tseng
// ("Data transformations for eliminating conflict misses", 1998), here for the sake of alignment; as there, rows do not
// lie so far apart that many of them share the same few places of the cache.
//
// An interrupt finds the arrays, and the scalars, as they were when the copies last went back: before the loop, or
// where that takes long, some iterations ago.
//
// Rules for editors:
// 1. Nothing but the loop's own loads and stores touches the views while it runs: nothing aliases them
// (`read_stencil`),
//    and nothing but polls leaves the loop. Another thread of Python may have the rest of an array: only the box of
//    what is stored goes back.
// 2. Elements of that box that nothing stores to are there because they were copied: the box of all accesses has it.

#include "passes/pad_rows.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "passes/arithmetic.h"
#include "passes/box.h"
#include "passes/copier.h"
#include "passes/final_values.h"
#include "passes/loops.h"
#include "passes/stencil.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "pad_rows";
// Bytes of rows for whose few vectors it makes no difference where they lie.
constexpr int64_t kShortRow = 256;
// Lines of which rows of the copies are no multiple.
constexpr int64_t kSamePlaces = 8;
// Bytes that a loop goes through at least, for its copies to be worth compiling; of arrays that no second-level cache
// holds; of all copies together, so that the thread keeps their memory for the next call (cpu/memory.h).
constexpr int64_t kWorth = int64_t{16} << 20;
constexpr int64_t kLarge = int64_t{40} << 20;
constexpr int64_t kMostBytes = int64_t{96} << 20;
// Loads and stores of an element for each copying of an array there or back, at least, and where copies come from
// memory.
constexpr int64_t kAccesses = 160;
constexpr int64_t kAccessesOfLarge = 4 * kAccesses;
// Bytes that may be gone through before an interrupt finds something done: half a second or so. Iterations, at least.
constexpr int64_t kLost = int64_t{8} << 30;
constexpr int64_t kFewestLost = 64;
constexpr int64_t kManyTrips = int64_t{1} << 20;

class Padder : Arithmetic {
 public:
  Padder(const Stencil& stencil, std::optional<PadSizes> sizes)
      : Arithmetic(*stencil.loop->graph),
        graph_(*stencil.loop->graph),
        stencil_(stencil),
        loop_(*stencil.loop),
        sizes_(sizes),
        values_(loop_) {}

  bool may_run() {
    find_arrays();
    return !arrays_.empty() && may_tell(loop_, values_) && find_boxes();
  }

  /// False where the entry that the graph is given has sizes for which the loop as written is better.
  bool run() {
    b_.set_loc(loop_.loc);
    b_.set_before(&loop_);
    trips_ = emit_trips(b_, loop_);
    Value* pays = sizes_ ? b_.boolean(true) : this->pays();
    stretch_ = sizes_ ? i64(sizes_->stretch) : most(over(i64(kLost), bytes_), i64(kFewestLost));
    Value* at_once = b_.op(Opcode::le_, {trips_, stretch_});
    return with_versions(b_, loop_, pays, [&](Op& choice) {
      const bool whole = sizes_ ? sizes_->stretch == 0 : settle(graph_, *at_once) == true;
      b_.set_block(choice.blocks[0]);
      for (Array& array : arrays_) {
        make(array);
        copy(array.touched, array.view, array.near, true);
      }
      b_.yield(whole ? steps(i64(0), trips_, initial()) : stretches());
      tell();
    });
  }

 private:
  struct Array {
    Value* view;
    std::vector<const Op*> accesses = {}, stores = {};
    std::vector<Span> touched = {}, stored = {};  // `stored` empty where nothing is
    int64_t lead = 0;                             // elements
    Value* near = nullptr;
  };

  int64_t line_of(const Array& array) const { return ir::kCacheLine / ir::size_of(array.view->type.dtype); }

  /// Arrays of rows that are the program's and are touched by loads and stores alone.
  void find_arrays() {
    std::set<const Value*> others;
    ir::walk(body_of(loop_), [&](const Op& op) {
      for (Value* v : op.operands) {
        if (!v->type.is_view()) continue;
        const ir::Layout layout = v->type.layout;
        const bool rows = v->type.rank > 1 && (layout == ir::Layout::c || layout == ir::Layout::inner);
        if (!rows || v->op || (op.code != Opcode::load_ && op.code != Opcode::store_)) {
          others.insert(v);
          continue;
        }
        auto at = std::find_if(arrays_.begin(), arrays_.end(), [&](const Array& a) { return a.view == v; });
        if (at == arrays_.end()) at = arrays_.insert(at, Array{v});
        at->accesses.push_back(&op);
        if (op.code == Opcode::store_) at->stores.push_back(&op);
      }
    });
    std::erase_if(arrays_, [&](const Array& a) { return others.contains(a.view); });
    std::optional<int64_t> usual;
    for (Array& array : arrays_) {
      if (array.stores.empty()) continue;
      array.lead = lead_of(array);
      if (!usual) usual = array.lead;
    }
    for (Array& array : arrays_) {
      if (array.stores.empty() && usual) array.lead = *usual % line_of(array);
    }
    if (!usual) arrays_.clear();
  }

  /// So that the first element of a row that is stored begins a line, where that is known.
  int64_t lead_of(const Array& array) const {
    const auto last = static_cast<size_t>(array.view->type.rank) - 1;
    for (const Op* store : array.stores) {
      const Affine at = row(*store, last);
      if (at.terms.size() != 1 || at.terms[0].second != 1) continue;
      const Value& iv = *at.terms[0].first;
      const Op* owner = iv.op ? nullptr : iv.block->owner;
      const auto lower =
          owner && is_for(*owner) && induction(*owner) == &iv ? constant(*owner->operands[0]) : std::nullopt;
      if (!lower) continue;
      const int64_t line = line_of(array);
      const auto first = static_cast<int64_t>((Wide{*lower} + at.constant) % line);
      return (line - first) % line;
    }
    return 0;
  }

  /// Where a box is not known in front of the loop nothing is left there of all this.
  bool find_boxes() {
    Ranges ranges(graph_);
    const Op* const mark = loop_.prev;
    Extremes extremes(graph_, ranges, loop_, {});
    const auto box_of = [&](const std::vector<const Op*>& accesses, std::vector<Span>& box) {
      for (size_t d = 0; !accesses.empty() && d < accesses[0]->access->offset.size(); ++d) {
        const auto span = span_of(ranges, extremes, accesses, d);
        if (!span) return false;
        box.push_back(*span);
      }
      return true;
    };
    for (Array& array : arrays_) {
      if (box_of(array.accesses, array.touched) && box_of(array.stores, array.stored)) continue;
      while (loop_.prev != mark) loop_.parent->remove(loop_.prev);
      return false;
    }
    return true;
  }

  /// A condition: the loop goes through rows that are not short so often that copies cost little.
  Value* pays() {
    int64_t copies = 0, accesses = 0;
    Value* shortest = nullptr;
    for (const Array& array : arrays_) {
      const int64_t size = ir::size_of(array.view->type.dtype);
      copies += array.stores.empty() ? 1 : 2;
      accesses += static_cast<int64_t>(array.accesses.size());
      Value *all = i64(size), *row = nullptr;
      for (int d = 0; d < array.view->type.rank; ++d) {
        row = b_.dim(array.view, d);
        all = mul(all, row);
      }
      row = times(row, size);
      shortest = shortest ? least(shortest, row) : row;
      bytes_ = bytes_ ? add(bytes_, all) : all;
    }
    bytes_ = most(bytes_, i64(1));
    const auto trips_for = [&](int64_t each) { return i64((each * copies + accesses - 1) / accesses); };
    Value* large = b_.op(Opcode::gt_, {bytes_, i64(kLarge)});
    Value* often = b_.op(Opcode::ge_, {trips_, b_.select(large, trips_for(kAccessesOfLarge), trips_for(kAccesses))});
    Value* work = mul(least(trips_, i64(kManyTrips)), bytes_);
    const auto also = [&](Value* x, Value* y) { return b_.op(Opcode::and_, {x, y}); };
    return also(also(often, b_.op(Opcode::ge_, {work, i64(kWorth)})),
                also(b_.op(Opcode::ge_, {shortest, i64(kShortRow)}), b_.op(Opcode::le_, {bytes_, i64(kMostBytes)})));
  }

  void make(Array& array) {
    ir::Type type = array.view->type;
    type.layout = ir::Layout::c;
    std::vector<Value*> extents;
    for (int d = 0; d < type.rank; ++d) extents.push_back(b_.dim(array.view, d));
    const int64_t line = line_of(array);
    Value* lines = emit_ceiling(b_, extents.back(), i64(line));
    Value* rest = b_.op(Opcode::and_, {lines, i64(kSamePlaces - 1)});
    lines = b_.select(b_.op(Opcode::eq_, {rest, i64(0)}), add(lines, 1), lines);
    extents.back() = times(lines, line);
    array.near = b_.alloc(type, extents);
    array.near->op->lead = static_cast<int32_t>(array.lead);
    array.near->name = array.view->name;
  }

  /// `ends`: what is behind rows in a copy, which vectors of their ends read (cpu/vector_memory.cpp), is zeros then.
  /// Processors may take long for what happens to lie there.
  void copy(const std::vector<Span>& box, Value* from, Value* to, bool ends = false) {
    std::vector<Value*> at;
    copy_dimension(box, at, from, to, ends);
  }

  void copy_dimension(const std::vector<Span>& box, std::vector<Value*>& at, Value* from, Value* to, bool ends) {
    const size_t d = at.size();
    const bool along = d + 1 == box.size();
    const auto loop = [&](Value* low, Value* high, auto&& inside) {
      ir::Loop kind;
      kind.parallel = d == 0 && stencil_.parallel;
      if (kind.parallel) kind.threads = stencil_.threads;
      kind.simd = along;
      emit_loop(b_, low, high, std::move(kind), [&](Value* n) {
        at.push_back(n);
        inside();
        at.pop_back();
      });
    };
    Value* begin = box[d].begin ? box[d].begin : i64(0);
    Value* end = add(begin, box[d].extent);
    if (!along) return loop(begin, end, [&] { copy_dimension(box, at, from, to, ends); });
    loop(begin, end, [&] { b_.store(b_.load(from, at), to, at); });
    if (!ends) return;
    const ir::DType t = to->type.dtype;
    Value* behind = least(add(end, ir::kCacheLine / ir::size_of(t)), to->op->operands.back());
    loop(end, behind, [&] { b_.store(b_.constant(t, 0), to, at); });
  }

  std::vector<Value*> initial() const { return {loop_.operands.begin() + 3, loop_.operands.end()}; }
  Value* iteration(Value* n) { return emit_iteration(b_, loop_, n); }

  /// Iterations [begin, end) on the copies, which go back then; what the loop's scalars are worth behind them.
  std::vector<Value*> steps(Value* begin, Value* end, const std::vector<Value*>& carried) {
    values_.at(iteration(begin), carried);
    const Told state = told_at(b_, loop_, values_);
    Copier copier(graph_);
    for (const Array& array : arrays_) copier.map(array.view, array.near);
    Value *lower = iteration(begin), *upper = iteration(end);
    Op& made = *copy_telling(loop_, copier, state);
    b_.block()->append(&made);
    made.operands[0] = lower;
    made.operands[1] = upper;
    std::copy(carried.begin(), carried.end(), made.operands.begin() + 3);
    for (const Array& array : arrays_) {
      if (!array.stores.empty()) copy(array.stored, array.near, array.view);
    }
    return {made.results.begin(), made.results.end()};
  }

  /// The same for all iterations, so many at a time as an interrupt may find undone.
  std::vector<Value*> stretches() {
    const std::vector<Value*> inits = initial();
    ir::Loop kind;
    kind.annotated = loop_.loop->annotated;
    kind.carried = loop_.loop->carried;
    Op* stretch = b_.for_loop(i64(0), emit_ceiling(b_, trips_, stretch_), i64(1), inits, std::move(kind));
    ir::Block& body = body_of(*stretch);
    ir::Block* around = b_.block();
    b_.set_block(&body);
    induction(*stretch)->name = "stretch";
    Value* begin = mul(induction(*stretch), stretch_);
    b_.yield(steps(begin, least(add(begin, stretch_), trips_), {body.args.begin() + 1, body.args.end()}));
    b_.set_block(around);
    return {stretch->results.begin(), stretch->results.end()};
  }

  void tell() {
    std::string names;
    for (size_t k = 0; k < arrays_.size(); ++k) {
      if (k > 0) names += k + 1 < arrays_.size() ? ", " : " and ";
      names += arrays_[k].view->name.empty() ? "an array" : arrays_[k].view->name;
    }
    remark(graph_, ir::Severity::note, kStage, loop_.loc,
           "the loop at " + passes::line_of(graph_, loop_.loc) + " works on copies of " + names +
               " whose rows begin with a line of the cache");
  }

  ir::Graph& graph_;
  const Stencil& stencil_;
  Op& loop_;
  std::optional<PadSizes> sizes_;
  FinalValues values_;
  std::vector<Array> arrays_;
  Value *trips_ = nullptr, *bytes_ = nullptr;
  Value* stretch_ = nullptr;  // iterations until copies go back
};

}  // namespace

bool pad(ir::Graph& graph, std::optional<PadSizes> sizes) {
  bool changed = false;
  const Op* padded = nullptr;
  for (Op* loop : for_loops(graph)) {
    if (padded && is_inside(*loop, body_of(*padded))) continue;
    std::string why;
    const std::optional<Stencil> stencil = read_stencil(*loop, why);
    if (!stencil) continue;
    Padder padder(*stencil, sizes);
    if (!padder.may_run()) continue;
    changed = true;
    if (padder.run()) padded = loop;
  }
  return changed;
}

bool pad_rows(ir::Graph& graph) { return pad(graph, std::nullopt); }

}  // namespace appy::passes
