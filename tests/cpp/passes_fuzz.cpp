// Random graphs through every pass and the whole pipeline: what they compute must not change.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "ir/builder.h"
#include "ir/sizes.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes_compare.h"
#include "passes_races.h"
#include "passes_random.h"

namespace appy::passes {
namespace {

using ir::Builder;
using ir::Opcode;
using ir::Value;

/// Writes a random region: loops, conditionals, carried values, checked accesses, arithmetic on i64, f64, i32 and bool.
class Generator : Random {
 public:
  explicit Generator(uint64_t seed) : Random(seed), graph_(std::make_unique<ir::Graph>()), b_(*graph_) {}

  std::unique_ptr<ir::Graph> make() {
    for (const char* name : {"x", "y"}) {
      views_.push_back(ir::add_arg(*graph_->body, {DType::f64_, 1, ir::Layout::c}, name));
    }
    views_.push_back(ir::add_arg(*graph_->body, {DType::i64_, 1, ir::Layout::c}, "idx"));
    graph_->may_alias = below(4) == 0;
    Value* n = ir::add_arg(*graph_->body, ir::scalar(DType::i64_), "n");
    n->range = below(2) ? ir::Range{0, 20} : ir::Range{};
    values_ = {n, ir::add_arg(*graph_->body, ir::scalar(DType::i64_), "m"),
               ir::add_arg(*graph_->body, ir::scalar(DType::f64_), "f"),
               ir::add_arg(*graph_->body, ir::scalar(DType::bool_), "p")};
    for (int64_t c : {0, 1, 2, -1, 8}) values_.push_back(b_.i64(c));
    for (Value* view : views_) values_.push_back(b_.dim(view, 0));
    statements(14, 0);
    std::vector<Value*> results{pick(DType::i64_), pick(DType::f64_), pick(DType::bool_)};
    b_.yield(results);
    return std::move(graph_);
  }

 private:
  Value* pick(DType t) {
    for (int attempt = 0; attempt < 12; ++attempt) {
      // Recent values more often.
      const size_t window = below(2) ? values_.size() : std::min<size_t>(values_.size(), 6);
      Value* v = values_[values_.size() - 1 - below(window)];
      if (v->type == ir::scalar(t)) return v;
    }
    if (t == DType::i64_) return b_.i64(static_cast<int64_t>(below(12)) - 3);
    if (t == DType::f64_) return b_.f64(static_cast<double>(below(7)) - 2.0);
    if (t == DType::bool_) return b_.boolean(below(2));
    return b_.constant(t, below(9));
  }

  void push(Value* v) { values_.push_back(v); }

  void statements(int count, int depth) {
    for (int i = 0; i < count; ++i) statement(depth);
  }

  void statement(int depth) {
    if (below(14) == 0) return array(depth);
    switch (below(depth < 3 ? 20 : 13)) {
      case 0:
      case 1:
      case 2:
        return integer();
      case 3:
      case 4:
        return compare();
      case 5:
        return real();
      case 6:
        return logic();
      case 7:
      case 8:
        return load();
      case 9:
        return store();
      case 10:
        return small();
      case 11:
        return push(b_.select(pick(DType::bool_), pick(DType::i64_), pick(DType::i64_)));
      case 12:
        return overflow();
      case 13:
      case 14:
      case 15:
        return conditional(depth);
      case 16:
        return while_loop(depth);
      default:
        return for_loop(depth);
    }
  }

  void integer() {
    static constexpr Opcode kOps[] = {Opcode::add_,      Opcode::add_, Opcode::sub_,   Opcode::sub_,   Opcode::mul_,
                                      Opcode::floordiv_, Opcode::mod_, Opcode::pymin_, Opcode::pymax_, Opcode::and_,
                                      Opcode::shr_,      Opcode::shl_, Opcode::wrap_,  Opcode::rem_,   Opcode::or_};
    if (below(10) == 0) return push(b_.op(below(2) ? Opcode::neg_ : Opcode::abs_, {pick(DType::i64_)}));
    push(b_.op(kOps[below(15)], {pick(DType::i64_), pick(DType::i64_)}));
  }

  void compare() {
    static constexpr Opcode kOps[] = {Opcode::eq_, Opcode::ne_, Opcode::lt_, Opcode::le_, Opcode::gt_, Opcode::ge_};
    const DType t = below(4) ? DType::i64_ : DType::f64_;
    push(b_.op(kOps[below(6)], {pick(t), pick(t)}));
  }

  void real() {
    static constexpr Opcode kOps[] = {Opcode::add_, Opcode::sub_, Opcode::mul_, Opcode::pymax_, Opcode::minimum_};
    if (below(5) == 0) return push(b_.cast(pick(DType::i64_), DType::f64_));
    push(b_.op(kOps[below(5)], {pick(DType::f64_), pick(DType::f64_)}));
  }

  void logic() {
    static constexpr Opcode kOps[] = {Opcode::and_, Opcode::or_, Opcode::xor_};
    if (below(3) == 0) return push(b_.op(Opcode::not_, {pick(DType::bool_)}));
    if (below(3) == 0) return push(b_.select(pick(DType::bool_), pick(DType::bool_), pick(DType::bool_)));
    push(b_.op(kOps[below(3)], {pick(DType::bool_), pick(DType::bool_)}));
  }

  void small() {
    Value* v = b_.cast(pick(DType::i64_), below(2) ? DType::i32_ : DType::u8_);
    v = b_.op(below(2) ? Opcode::add_ : Opcode::mul_, {v, b_.constant(v->type.dtype, below(5))});
    push(b_.cast(v, DType::i64_));
  }

  void check(ir::CheckKind kind, Value* ok, std::vector<Value*> info) {
    ir::Check c;
    c.kind = kind;
    c.declines = false;
    std::vector<Value*> state;
    if (below(2)) {
      c.has_state = true;
      state = {pick(DType::i64_), pick(DType::f64_), pick(DType::bool_)};
    }
    b_.check(c, ok, info, state);
  }

  void overflow() {
    static constexpr Opcode kTest[] = {Opcode::ovf_add_, Opcode::ovf_sub_, Opcode::ovf_mul_};
    static constexpr Opcode kOps[] = {Opcode::add_, Opcode::sub_, Opcode::mul_};
    const uint64_t k = below(3);
    Value *a = pick(DType::i64_), *c = pick(DType::i64_);
    check(ir::CheckKind::overflow_, b_.op(Opcode::not_, {b_.op(kTest[k], {a, c})}), {});
    push(b_.op(kOps[k], {a, c}));
  }

  /// A subscript as the tracer writes it: wrapped and checked.
  Value* subscript(Value* view) {
    Value *i = pick(DType::i64_), *n = b_.dim(view, 0), *zero = b_.i64(0);
    if (below(2)) {
      Value* ok = b_.op(Opcode::and_, {b_.op(Opcode::ge_, {i, b_.op(Opcode::neg_, {n})}), b_.op(Opcode::lt_, {i, n})});
      check(ir::CheckKind::bounds_, ok, {i, zero, n});
      return b_.op(Opcode::wrap_, {i, n});
    }
    Value* w = b_.op(Opcode::wrap_, {i, n});
    Value* ok = b_.op(Opcode::and_, {b_.op(Opcode::ge_, {w, zero}), b_.op(Opcode::lt_, {w, n})});
    if (below(3) == 0) {  // guarded instead of checked
      ir::Op* guard = b_.if_op(b_.op(Opcode::gt_, {n, zero}), {});
      ir::Block* outer = b_.block();
      for (ir::Block* arm : guard->blocks) {
        b_.set_block(arm);
        b_.yield({});
      }
      b_.set_block(outer);
    }
    check(ir::CheckKind::bounds_, ok, {i, zero, n});
    return w;
  }

  /// An array of the region's own, full from the start: what nobody stored is nobody's to read.
  void array(int depth) {
    Value* n = b_.op(Opcode::pymax_, {b_.op(Opcode::pymin_, {pick(DType::i64_), b_.i64(9)}), b_.i64(0)});
    if (below(3) == 0) n = b_.i64(1 + static_cast<int64_t>(below(4)));
    Value* view = b_.alloc({DType::f64_, 1, ir::Layout::c}, {{n}});
    view->op->escapes = depth == 0 && below(3) == 0;
    Value* fill = pick(DType::f64_);
    ir::Op* loop = b_.for_loop(b_.i64(0), n, b_.i64(1), {}, {});
    ir::Block* outer = b_.block();
    b_.set_block(loop->blocks[0]);
    b_.store(fill, view, {{loop->blocks[0]->args[0]}});
    b_.yield({});
    b_.set_block(outer);
    made_.push_back(view);
  }

  Value* array_of(size_t parameters) {
    return !made_.empty() && below(2) ? made_[below(made_.size())] : views_[below(parameters)];
  }

  void load() {
    Value* view = array_of(views_.size());
    Value* at[] = {subscript(view)};
    push(b_.load(view, at));
  }

  void store() {
    Value* view = array_of(2);
    Value* at[] = {subscript(view)};
    b_.store(pick(DType::f64_), view, at);
  }

  static constexpr DType kCarried[] = {DType::i64_, DType::f64_, DType::i64_};

  std::vector<Value*> carried_values(size_t count) {
    std::vector<Value*> out;
    for (size_t i = 0; i < count; ++i) out.push_back(pick(kCarried[i]));
    return out;
  }

  void conditional(int depth) {
    const size_t count = below(3);
    const bool leaves = loop_carried_ > 0 && below(4) == 0;
    std::vector<ir::Type> types;
    for (size_t i = 0; i < count; ++i) types.push_back(ir::scalar(kCarried[i]));
    ir::Op* op = b_.if_op(pick(DType::bool_), types);
    ir::Block* outer = b_.block();
    const size_t mark = values_.size(), made = made_.size();
    for (size_t arm = 0; arm < 2; ++arm) {
      b_.set_block(op->blocks[arm]);
      statements(static_cast<int>(below(4)), depth + 1);
      if (leaves && arm == 1) {
        b_.terminator(below(2) ? Opcode::break_ : Opcode::continue_,
                      carried_values(static_cast<size_t>(loop_carried_) - 1));
      } else {
        b_.yield(carried_values(count));
      }
      values_.resize(mark);
      made_.resize(made);
    }
    b_.set_block(outer);
    for (Value* v : op->results) push(v);
  }

  void for_loop(int depth) {
    const size_t count = below(4);
    Value* step = b_.i64(std::array<int64_t, 4>{1, 1, 2, -1}[below(4)]);
    Value *lower = pick(DType::i64_), *upper = b_.op(Opcode::pymin_, {pick(DType::i64_), b_.i64(9)});
    lower = b_.op(Opcode::pymax_, {b_.op(Opcode::pymin_, {lower, b_.i64(9)}), b_.i64(-2)});
    upper = b_.op(Opcode::pymax_, {upper, b_.i64(-2)});
    if (below(3) == 0) upper = b_.dim(views_[below(3)], 0);
    if (below(2)) lower = b_.i64(static_cast<int64_t>(below(2)));
    ir::Loop loop;
    loop.simd = below(3) == 0;
    ir::Op* op = b_.for_loop(lower, upper, step, carried_values(count), loop);
    nested(op, count, depth);
  }

  void while_loop(int depth) {
    const size_t count = 1 + below(2);
    std::vector<Value*> inits = carried_values(count);
    inits[0] = below(2) ? b_.i64(0) : inits[0];
    ir::Op* op = b_.while_loop(inits);
    ir::Block* outer = b_.block();
    b_.set_block(op->blocks[0]);
    Value *k = op->blocks[0]->args[0], *limit = b_.op(Opcode::pymin_, {pick(DType::i64_), b_.i64(10)});
    ir::Op* stop = b_.if_op(b_.op(Opcode::lt_, {k, limit}), {});
    b_.set_block(stop->blocks[0]);
    b_.yield({});
    b_.set_block(stop->blocks[1]);
    b_.terminator(Opcode::break_, op->blocks[0]->args);
    b_.set_block(op->blocks[0]);
    const size_t mark = values_.size(), made = made_.size();
    for (Value* arg : op->blocks[0]->args) push(arg);
    const int around = loop_carried_;
    loop_carried_ = 0;
    statements(static_cast<int>(below(5)), depth + 1);
    std::vector<Value*> next = carried_values(count);
    next[0] = b_.op(Opcode::add_, {k, b_.i64(1 + static_cast<int64_t>(below(2)))});
    b_.yield(next);
    loop_carried_ = around;
    values_.resize(mark);
    made_.resize(made);
    b_.set_block(outer);
    for (Value* v : op->results) push(v);
  }

  void nested(ir::Op* op, size_t count, int depth) {
    ir::Block* outer = b_.block();
    const size_t mark = values_.size(), made = made_.size();
    const int around = loop_carried_;
    loop_carried_ = static_cast<int>(count) + 1;
    b_.set_block(op->blocks[0]);
    for (Value* arg : op->blocks[0]->args) push(arg);
    statements(1 + static_cast<int>(below(6)), depth + 1);
    std::vector<Value*> next = carried_values(count);
    for (size_t i = 0; i < count; ++i) {
      if (kCarried[i] == DType::i64_ && below(2)) {
        next[i] = b_.op(Opcode::add_, {op->blocks[0]->args[i + 1], b_.i64(static_cast<int64_t>(below(4)) - 1)});
      }
    }
    b_.yield(next);
    loop_carried_ = around;
    values_.resize(mark);
    made_.resize(made);
    b_.set_block(outer);
    for (Value* v : op->results) push(v);
  }

  std::unique_ptr<ir::Graph> graph_;
  Builder b_;
  std::vector<Value*> values_;
  std::vector<Value*> views_;
  std::vector<Value*> made_;  // arrays of the region's own that are visible
  int loop_carried_ = 0;      // carried values of the innermost `for`, plus 1; 0 outside
};

void apply(ir::Graph& graph, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    find(name)->run(graph);
    ASSERT_EQ(ir::verify(graph), "") << "after " << name;
  }
}

/// A `simd` loop loads a view that it stores to: whether its promise holds depends on the values.
bool may_promise_falsely(const ir::Graph& graph) {
  bool found = false;
  ir::walk(*graph.body, [&](const ir::Op& loop) {
    if (loop.code != Opcode::for_ || !loop.loop->simd) return;
    std::vector<const Value*> stored, loaded;
    ir::walk(*loop.blocks[0], [&](const ir::Op& op) {
      if (op.access) (op.code == Opcode::load_ ? loaded : stored).push_back(op.view());
    });
    for (const Value* view : stored) found |= std::find(loaded.begin(), loaded.end(), view) != loaded.end();
  });
  return found;
}

void fuzz(std::initializer_list<const char*> names, const char* label) {
  const int first = env("APPY_FUZZ_FIRST", 1), count = env("APPY_FUZZ_COUNT", 150);
  int valid = 0;
  for (int seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(std::string(label) + ", seed " + std::to_string(seed));
    const auto before = Generator(static_cast<uint64_t>(seed)).make();
    ASSERT_EQ(ir::verify(*before), "") << ir::print(*before);
    const auto after = ir::clone(*before);
    apply(*after, names);
    for (int trial = 0; trial < 12; ++trial) valid += compare(*before, *after, trial) ? 1 : 0;
    if (testing::Test::HasFailure() && std::getenv("APPY_FUZZ_PRINT")) {
      std::printf("%s\n----\n%s\n", ir::print(*before).c_str(), ir::print(*after).c_str());
    }
  }
  EXPECT_GT(valid, count) << "the generator makes too few graphs that run";
}

TEST(Fuzz, Fold) { fuzz({"fold"}, "fold"); }
TEST(Fuzz, Access) { fuzz({"access"}, "access"); }
TEST(Fuzz, Cse) { fuzz({"cse"}, "cse"); }
TEST(Fuzz, Hoist) { fuzz({"hoist"}, "hoist"); }
TEST(Fuzz, Dce) { fuzz({"dce"}, "dce"); }
TEST(Fuzz, Allocs) { fuzz({"hoist", "allocs", "lanes", "allocs"}, "allocs"); }
TEST(Fuzz, ContractArrays) { fuzz({"access", "contract_arrays"}, "contract_arrays"); }
TEST(Fuzz, All) {
  fuzz({"fold", "dce", "access", "cse", "contract_arrays", "hoist", "allocs", "fold", "access", "cse", "hoist", "dce"},
       "all");
}

TEST(Fuzz, Pipeline) {
  const int first = env("APPY_FUZZ_FIRST", 1), count = env("APPY_FUZZ_COUNT", 150);
  int valid = 0;
  for (int seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("pipeline, seed " + std::to_string(seed));
    const auto before = Generator(static_cast<uint64_t>(seed)).make();
    const auto after = ir::clone(*before);
    Options options;
    options.verify = true;
    if (may_promise_falsely(*before)) options.disabled = {"hoist_promised"};
    run(*after, options);
    for (int trial = 0; trial < 12; ++trial) valid += compare(*before, *after, trial, true) ? 1 : 0;
    if (HasFailure() && std::getenv("APPY_FUZZ_PRINT")) {
      std::printf("%s\n----\n%s\n", ir::print(*before).c_str(), ir::print(*after).c_str());
    }
  }
  EXPECT_GT(valid, count) << "nearly everything declines";
}

/// Compiled for one of the entries, with what its conditions are by arguments alone settled: that entry gets what it
/// got, the others the same, or they decline.
TEST(Fuzz, Given) {
  const int first = env("APPY_FUZZ_FIRST", 1), count = env("APPY_FUZZ_COUNT", 150);
  int valid = 0, settled = 0;
  for (int seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("given, seed " + std::to_string(seed));
    const auto before = Generator(static_cast<uint64_t>(seed)).make();
    const auto after = ir::clone(*before);
    const int entry = seed % 12;
    after->given = Inputs(*before, entry).args();
    std::vector<const Value*> conditions;
    for (const ir::Op* op = after->body->first; op; op = op->next) {
      if (op->code == Opcode::if_) conditions.push_back(op->operands[0]);
    }
    for (const Value* condition : conditions) settled += ir::settle(*after, *condition, after->given) ? 1 : 0;
    ASSERT_EQ(ir::verify(*after), "");
    valid += compare(*before, *after, entry) ? 1 : 0;
    Options options;
    options.verify = true;
    if (may_promise_falsely(*before)) options.disabled = {"hoist_promised"};
    run(*after, options);
    for (int trial = 0; trial < 12; ++trial) valid += compare(*before, *after, trial, true) ? 1 : 0;
  }
  EXPECT_GT(valid, count) << "nearly everything declines";
  EXPECT_GT(settled, count / 4) << "the generator makes too few conditions that arguments decide";
}

TEST(Fuzz, Device) {
  const int first = env("APPY_FUZZ_FIRST", 1), count = env("APPY_FUZZ_COUNT", 150);
  int valid = 0, barriers = 0, needed = 0;
  for (int seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("device, seed " + std::to_string(seed));
    const auto before = Generator(static_cast<uint64_t>(seed)).make();
    const auto after = ir::clone(*before);
    if (seed % 2) {
      Options options;
      options.target = Target::device;
      options.verify = true;
      if (may_promise_falsely(*before)) options.disabled = {"hoist_promised"};
      run(*after, options);
      for (int trial = 0; trial < 12; ++trial) valid += compare(*before, *after, trial, true, true) ? 1 : 0;
    } else {
      apply(*after, {"unwatched", "distribute", "barriers"});
    }
    EXPECT_EQ(race(*after, 12, 200'000), "");
    std::vector<ir::Op*> found;
    ir::walk(*after->body, [&](ir::Op& op) {
      // At the head of a `while` it may be there for the host only.
      const ir::Op* owner = op.parent->owner;
      const bool heads = owner && owner->code == Opcode::while_ && !op.prev;
      if (op.code == Opcode::barrier_ && !heads) found.push_back(&op);
    });
    for (ir::Op* barrier : found) {
      ir::Op* const next = barrier->next;
      barrier->parent->remove(barrier);
      ++barriers;
      needed += race(*after, 12, 200'000).empty() ? 0 : 1;
      next->parent->insert_before(next, barrier);
    }
  }
  EXPECT_GT(valid, count / 2) << "nearly everything declines";
  EXPECT_GT(20 * needed, barriers) << "the inputs show no races";
}

}  // namespace
}  // namespace appy::passes
