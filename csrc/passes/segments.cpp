// Sums of rows that lie one behind the other, `for i: for j in range(p[i], p[i + 1]): s += a[j] * x[c[j]]`, of few
// terms each: where a row ends no processor foresees. Blocks of rows compute their terms in one loop, which does not
// ask whose they are, and keep them; then each row adds up its own, which are few and lie side by side.
//
// That is the segmented sum of Blelloch, Heroux and Zagha ("Segmented operations for sparse matrix computation on
// vector multiprocessors", 1993) in blocks that stay in the first cache.
//
// Whether p ascends, and how many terms a block has, only the region knows when it runs: otherwise, where rows are
// long, and where all have as many terms, which is foreseen, a block runs as written. No term is computed that the rows
// do not have.
#include "passes/segments.h"

#include <algorithm>
#include <vector>

#include "ir/builder.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/ragged.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "segments";
/// Rows of a block, at most, and terms that they have on average, at most: 8 KB of float64. Of rows that are
/// summed in groups fewer: with more than half as many every other group has one that is not short. On a Zen 2 65536
/// rows of 0 to 7 terms take 0.45 ms, 0.71 as written, and such of 0 to 9 terms 1.0 and 0.77.
constexpr int64_t kRows = 128, kTerms = 8, kTermsInGroups = 4;
/// Rows of a group, which have fewer terms than the second number, a power of two; and ops of a row.
constexpr int64_t kGroup = 8, kShort = 8;
constexpr size_t kOps = 16;
/// With so many, a row of its own is a vector under a mask.
constexpr int kManyRegisters = 32;
/// Blocks for each worker, at least, where there are rows enough.
constexpr int64_t kBlocks = 8;
/// Where so many rows of a worker end, and no more, a processor that computes them again and again knows by heart: a
/// Zen 4 sums 16384 rows of two terms in 44 us then, 93 at first, and 55 in blocks; of 131072 rows 970 and 370. Those
/// with few registers have shorter memories: a Zen 2 sums 4000 rows of two terms in 23 us and 21 in blocks,
/// 6000 in 46 and 29.
constexpr int64_t kLearned = 20000, kLearnedByFew = 5000;

class Segmenter {
 public:
  Segmenter(ir::Graph& graph, int64_t learned) : graph_(graph), b_(graph), learned_(learned) {}

  bool run(Block& block) {
    bool changed = false;
    for (Op *op = block.first, *next; op; op = next) {
      next = op->next;
      if (const auto nest = find_ragged(*op)) {
        divide(*nest);
        changed = true;
        continue;
      }
      for (Block* inner : op->blocks) changed |= run(*inner);
    }
    return changed;
  }

 private:
  void divide(const Ragged& nest) {
    Op& rows = *nest.rows;
    remark(graph_, ir::Severity::note, kStage, rows.loc,
           "the loop at " + line_of(graph_, nest.sums->loc) + " adds up terms that blocks of rows of the one at " +
               line_of(graph_, rows.loc) + " compute together, where the rows are short");
    b_.set_loc(rows.loc);
    b_.set_before(&rows);
    Value *low = rows.operands[0], *high = rows.operands[1];
    Value* count = emit_distance(b_, low, high);
    const int64_t workers = std::max(1, graph_.workers);
    Value* many = b_.op(Opcode::ge_, {count, b_.i64(learned_ * workers)});
    Value* share = b_.op(Opcode::pymax_, {ceiling(count, b_.i64(kBlocks * workers)), b_.i64(1)});
    Value* multiple = b_.op(Opcode::mul_, {ceiling(share, b_.i64(kGroup)), b_.i64(kGroup)});
    Value* size = b_.select(many, least(multiple, b_.i64(kRows)), share);
    Op* blocks = b_.for_loop(b_.i64(0), ceiling(count, size), b_.i64(1), {}, *rows.loop);
    b_.set_block(&body_of(*blocks));
    Value* from = add(low, b_.op(Opcode::mul_, {induction(*blocks), size}));
    Value* to = least(add(from, size), high);
    begin_ = bound_at(nest, from);
    Value* end = bound_at(nest, to);
    Value* length = sub(end, begin_);
    kept_.clear();
    for (const Value* result : nest.sums->results) {
      Value* const extents[] = {b_.i64(kRows * kTerms + kShort)};
      kept_.push_back(b_.alloc({result->type.dtype, 1, ir::Layout::c}, extents));
    }
    Value* terms = b_.i64(in_groups(nest) ? kTermsInGroups : kTerms);
    Value* few = b_.op(Opcode::le_, {length, b_.op(Opcode::mul_, {sub(to, from), terms})});
    Value* whole = b_.op(Opcode::eq_, {sub(to, from), size});
    Value* may = b_.op(Opcode::and_, {many, b_.op(Opcode::and_, {few, whole})});
    if (nest.wraps) may = b_.op(Opcode::and_, {may, b_.op(Opcode::ge_, {begin_, b_.i64(0)})});
    for (Value* cap : nest.caps) may = b_.op(Opcode::and_, {may, b_.op(Opcode::le_, {end, cap})});
    for (const Ragged::Tested& at : nest.tested) {
      may = b_.op(Opcode::and_, {may, b_.op(Opcode::gt_, {at.extent, b_.i64(0)})});
    }
    Value* fine = b_.op(Opcode::and_, {may, ascends_unevenly(nest, from, b_.select(may, to, from))});
    if (!nest.tested.empty()) fine = if_tested(nest, fine, length);
    emit_if(
        b_, fine,
        [&] {
          if (nest.tested.empty()) compute_terms(nest, length);
          add_up(nest, from, to);
          if (polls(rows)) b_.poll({});
        },
        [&] {
          Op* written = Copier(graph_).copy(rows);
          written->operands[0] = from;
          written->operands[1] = to;
          b_.block()->append(written);
        });
    b_.yield({});
    rows.parent->remove(&rows);
  }

  /// Where the row begins.
  Value* bound_at(const Ragged& nest, Value* row) {
    Copier copier(graph_);
    copier.map(induction(*nest.rows), row);
    Block* const block = b_.block();
    block->append(copier.copy(*nest.begin.load));
    if (nest.begin.cast) block->append(copier.copy(*nest.begin.cast));
    return copier.of(nest.begin.value());
  }

  /// No row ends before it begins, and not all have as many terms as the first.
  Value* ascends_unevenly(const Ragged& nest, Value* from, Value* to) {
    Value* const of_first = elements(nest, from).length;
    ir::Loop loop;
    loop.simd = true;
    loop.carried = {{.combiner = ir::Combiner::and_}, {.combiner = ir::Combiner::and_}};
    Value* const yes = b_.boolean(true);
    Value* const start[] = {yes, yes};
    Op* all = b_.for_loop(from, to, b_.i64(1), start, loop);
    Block* const outside = b_.block();
    b_.set_block(&body_of(*all));
    const Elements row = elements(nest, induction(*all));
    Value* const next[] = {
        b_.op(Opcode::and_, {body_of(*all).args[1], b_.op(Opcode::le_, {row.begin, row.end})}),
        b_.op(Opcode::and_, {body_of(*all).args[2], b_.op(Opcode::eq_, {row.length, of_first})}),
    };
    b_.yield(next);
    b_.set_block(outside);
    return b_.op(Opcode::and_, {all->results[0], b_.op(Opcode::not_, {all->results[1]})});
  }

  /// Of a row, as the array has them.
  struct Elements {
    Value *begin, *end, *length;
  };
  Elements elements(const Ragged& nest, Value* row) {
    Copier copier(graph_);
    copier.map(induction(*nest.rows), row);
    for (const Op* load : {nest.begin.load, nest.end.load}) b_.block()->append(copier.copy(*load));
    Value *begin = copier.of(nest.begin.load->result()), *end = copier.of(nest.end.load->result());
    return {begin, end, sub(end, begin)};
  }

  /// The terms, unless they may not be computed; were they, and did all indices pass their tests? Where one did not,
  /// the rows as written tell which.
  Value* if_tested(const Ragged& nest, Value* may, Value* length) {
    const ir::Type result = ir::scalar(ir::DType::bool_);
    Op* tested = b_.if_op(may, std::span(&result, 1));
    Block* const outside = b_.block();
    b_.set_block(tested->blocks[0]);
    Value* const passed[] = {compute_terms(nest, length)};
    b_.yield(passed);
    b_.set_block(tested->blocks[1]);
    Value* const no[] = {b_.boolean(false)};
    b_.yield(no);
    b_.set_block(outside);
    return tested->results[0];
  }

  /// Whether all indices passed, if there are any to be tested; what does not is taken for 0, so that it is loaded.
  Value* compute_terms(const Ragged& nest, Value* length) {
    const Op& sums = *nest.sums;
    ir::Loop loop;
    loop.simd = true;
    loop.annotated = sums.loop->annotated;
    std::vector<Value*> start;
    if (!nest.tested.empty()) {
      loop.carried = {{.combiner = ir::Combiner::and_}};
      start = {b_.boolean(true)};
    }
    Value* first = nest.counts ? b_.i64(0) : begin_;
    Op* all = b_.for_loop(first, add(first, length), b_.i64(1), start, loop);
    all->loc = sums.loc;
    Copier copier(graph_);
    copier.map(induction(sums), induction(*all));
    copier.map(nest.low, begin_);
    Block* const outside = b_.block();
    b_.set_block(&body_of(*all));
    std::vector<Value*> passed(body_of(*all).args.begin() + 1, body_of(*all).args.end());
    for (const Op* op = body_of(sums).first; op != body_of(sums).last; op = op->next) {
      const auto tested = std::find_if(nest.tested.begin(), nest.tested.end(),
                                       [&](const Ragged::Tested& at) { return at.check == op; });
      if (tested != nest.tested.end()) {
        Value* passes = copier.of(op->operands[0]);
        passed[0] = b_.op(Opcode::and_, {passed[0], passes});
        copier.map(tested->index, b_.select(passes, copier.of(tested->index), b_.i64(0)));
        continue;
      }
      const bool adds = std::any_of(body_of(sums).last->operands.begin(), body_of(sums).last->operands.end(),
                                    [&](const Value* next) { return next->op == op; });
      if (!adds && op->code != Opcode::poll_) b_.block()->append(copier.copy(*op));
    }
    for (size_t k = 0; k < kept_.size(); ++k) {
      Op* store = relative_access(graph_, sums.loc, Opcode::store_, kept_[k], induction(*all), first);
      store->operands.insert(store->operands.begin(), copier.of(nest.terms[k]));
      b_.block()->append(store);
    }
    b_.yield(passed);
    b_.set_block(outside);
    return nest.tested.empty() ? nullptr : all->results[0];
  }

  /// Where there are few registers, and lanes, groups of rows, whose sums are made together where all of them are
  /// short.
  void add_up(const Ragged& nest, Value* from, Value* to) {
    const Op& rows = *nest.rows;
    if (!in_groups(nest)) return by_rows(nest, from, to);
    Op* groups = b_.for_loop(from, to, b_.i64(kGroup), {}, *rows.loop);
    groups->loc = rows.loc;
    Block* const outside = b_.block();
    b_.set_block(&body_of(*groups));
    Value* const first = induction(*groups);
    emit_if(
        b_, are_short(nest, first), [&] { together(nest, first); },
        [&] { by_rows(nest, first, add(first, b_.i64(kGroup))); });
    b_.yield({});
    b_.set_block(outside);
  }

  bool in_groups(const Ragged& nest) const { return graph_.registers < kManyRegisters && may_unroll(nest); }

  /// Do all rows of the group have fewer than kShort terms? Their numbers together have no higher bit then.
  Value* are_short(const Ragged& nest, Value* first) {
    Value* all = nullptr;
    for (int64_t r = 0; r < kGroup; ++r) {
      Value* begin = bound_at(nest, add(first, b_.i64(r)));
      Value* length = sub(bound_at(nest, add(first, b_.i64(r + 1))), begin);
      all = all ? b_.op(Opcode::or_, {all, length}) : length;
    }
    return b_.op(Opcode::lt_, {all, b_.i64(kShort)});
  }

  /// What a row does beside its sums is short, too.
  static bool may_unroll(const Ragged& nest) {
    size_t ops = 0;
    bool plain = true;
    for (const Op* op = body_of(*nest.rows).first; op; op = op->next) {
      ++ops;
      plain &= op == nest.sums || op->blocks.empty();
    }
    return plain && ops <= kOps && nest.sums->results.size() == 1;
  }

  /// The sums of the group's rows: of each as many terms as any may have, of which those that it does not have count
  /// nothing.
  void together(const Ragged& nest, Value* first) {
    const Op &rows = *nest.rows, &sums = *nest.sums;
    std::vector<Copier> copiers(static_cast<size_t>(kGroup), Copier(graph_));
    std::vector<Value*> begins, lengths;
    Value* const nothing = none(sums, 0);
    for (int64_t r = 0; r < kGroup; ++r) {
      Copier& copier = copiers[static_cast<size_t>(r)];
      copier.map(induction(rows), add(first, b_.i64(r)));
      copy(body_of(rows).first, &sums, copier);
      begins.push_back(sub(copier.of(nest.begin.value()), begin_));
      lengths.push_back(sub(copier.of(nest.end.value()), copier.of(nest.begin.value())));
    }
    ir::Loop loop = *sums.loop;
    loop.parallel = false;
    loop.le = kShort;
    loop.carried.assign(static_cast<size_t>(kGroup), sums.loop->carried[0]);
    const std::vector<Value*> starts(static_cast<size_t>(kGroup), nothing);
    Op* own = b_.for_loop(b_.i64(0), b_.i64(kShort), b_.i64(1), starts, loop);
    own->loc = sums.loc;
    Block* const outside = b_.block();
    b_.set_block(&body_of(*own));
    std::vector<Value*> next;
    for (size_t r = 0; r < copiers.size(); ++r) {
      Value* const index[] = {add(begins[r], induction(*own))};
      Value* term = b_.load(kept_[0], index);
      Value* has = b_.op(Opcode::lt_, {induction(*own), lengths[r]});
      next.push_back(add(body_of(*own).args[1 + r], b_.select(has, term, nothing)));
    }
    b_.yield(next);
    b_.set_block(outside);
    for (int64_t r = 0; r < kGroup; ++r) {
      Copier& copier = copiers[static_cast<size_t>(r)];
      finish(sums, own->results[static_cast<size_t>(r)], 0, copier);
      copy(sums.next, body_of(rows).last, copier);
    }
  }

  /// A block is short: one poll is enough for it.
  static bool is_poll(const Op& op) { return op.code == Opcode::poll_ && op.operands.empty(); }
  static bool polls(const Op& rows) {
    bool found = false;
    for (const Op* op = body_of(rows).first; op; op = op->next) found |= is_poll(*op);
    return found;
  }

  /// What the row does from an op to before another one.
  void copy(const Op* from, const Op* to, Copier& copier) {
    for (const Op* op = from; op != to; op = op->next) {
      if (!is_poll(*op)) b_.block()->append(copier.copy(*op));
    }
  }

  void by_rows(const Ragged& nest, Value* from, Value* to) {
    const Op& rows = *nest.rows;
    Op* loop = b_.for_loop(from, to, b_.i64(1), {}, *rows.loop);
    loop->loc = rows.loc;
    Copier copier(graph_);
    copier.map(induction(rows), induction(*loop));
    Block* const outside = b_.block();
    b_.set_block(&body_of(*loop));
    copy(body_of(rows).first, nest.sums, copier);
    row_sums(nest, copier);
    copy(nest.sums->next, nullptr, copier);
    b_.set_block(outside);
  }

  void row_sums(const Ragged& nest, Copier& copier) {
    const Op& sums = *nest.sums;
    ir::Loop loop = *sums.loop;
    loop.parallel = false;
    std::vector<Value*> starts;
    for (size_t k = 0; k < sums.results.size(); ++k) starts.push_back(none(sums, k));
    Value* begin = sub(copier.of(nest.begin.value()), begin_);
    // It fits, and says that it is not negative.
    Value* length = sub(copier.of(nest.end.value()), copier.of(nest.begin.value()));
    Value* count = b_.cast(b_.cast(length, ir::DType::u32_), ir::DType::i64_);
    Op* own = b_.for_loop(b_.i64(0), count, b_.i64(1), starts, loop);
    own->loc = sums.loc;
    Block* const outside = b_.block();
    b_.set_block(&body_of(*own));
    Value* const index[] = {add(begin, induction(*own))};
    std::vector<Value*> next;
    for (size_t k = 0; k < kept_.size(); ++k) next.push_back(add(body_of(*own).args[1 + k], b_.load(kept_[k], index)));
    b_.yield(next);
    b_.set_block(outside);
    for (size_t k = 0; k < kept_.size(); ++k) finish(sums, own->results[k], k, copier);
  }

  static Value* start_of(const Op& sums, size_t k) { return sums.operands[first_init(sums) + k]; }
  static bool from_zero(const Op& sums, size_t k) {
    const Value* start = start_of(sums, k);
    return start->op && start->op->code == Opcode::const_ && start->op->imm == 0;
  }
  /// What adds nothing to the sum: to -0, which it may start with, 0 does.
  Value* none(const Op& sums, size_t k) {
    const ir::DType t = sums.results[k]->type.dtype;
    return b_.constant(t, from_zero(sums, k) ? 0 : ir::neutral(ir::Combiner::sum_, t));
  }
  /// What the row's sum started with is added once.
  void finish(const Op& sums, Value* sum, size_t k, Copier& copier) {
    copier.map(sums.results[k], from_zero(sums, k) ? sum : add(copier.of(start_of(sums, k)), sum));
  }

  Value* ceiling(Value* n, Value* by) { return emit_ceiling(b_, n, by); }
  Value* add(Value* x, Value* y) { return b_.op(Opcode::add_, {x, y}); }
  Value* sub(Value* x, Value* y) { return b_.op(Opcode::sub_, {x, y}); }
  Value* least(Value* x, Value* y) { return b_.op(Opcode::pymin_, {x, y}); }

  ir::Graph& graph_;
  Builder b_;
  const int64_t learned_;
  Value* begin_ = nullptr;    // of the block's first row
  std::vector<Value*> kept_;  // the terms of each sum
};

}  // namespace

bool keep_terms(ir::Graph& graph, int64_t learned) {
  return !graph.may_alias && !graph.exact && Segmenter(graph, learned).run(*graph.body);
}

bool segments(ir::Graph& graph) {
  return keep_terms(graph, graph.registers < kManyRegisters ? kLearnedByFew : kLearned);
}

}  // namespace appy::passes
