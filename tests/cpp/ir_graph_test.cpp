#include <gtest/gtest.h>

#include <algorithm>

#include "ir/builder.h"
#include "ir/footprint.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace appy::ir {
namespace {

constexpr const char* kStencil = R"(region @r(%n: i64, %idx: i64[1,c], %u: f64[2,c], %v: f64[1,inner], %w: f64[0,c]) {
  %one = const 1 : i64
  for %i = %one to %n step %one {
    for %j = %one to %n step %one {
      %a = load %u[%i + 1, %j - 1] : f64
      %k = load %idx[%j] : i64
      %b = load %v[%k] : f64
      %c = add %a, %b : f64
      store %c, %u[%n, 2*%j]
      atomic sum %c, %v[%i + %n]
      yield
    }
    yield
  }
  %q = load %idx[%one] : i64
  %z = load %v[%q] : f64
  yield %z
}
)";

TEST(Footprint, ListsAccessesByArray) {
  const auto graph = parse(kStencil);
  const auto arrays = footprint(*graph);
  EXPECT_EQ(print(*graph, arrays), R"(%idx: read
  load [%j] for %i for %j
  load [%one]
%u: read written
  load [%i + 1, %j - 1] for %i for %j
  store [%n, 2*%j] for %i for %j
%v: read written
  load unknown for %i for %j
  atomic [%i + %n] for %i for %j
  load [%q]
%w: unused
)");
}

TEST(Footprint, AValueFromAnOuterLoopIsNotInvariantInAll) {
  const auto graph = parse(R"(region @r(%n: i64, %u: f64[1,c]) {
  for %i = %n to %n step %n {
    %i2 = mul %i, %n : i64
    for %j = %n to %n step %n {
      %a = load %u[%i2 + %j] : f64
      yield
    }
    yield
  }
  %r = while carry(%k = %n) : i64 {
    %a = load %u[%k] : f64
    break %k
  }
  yield
}
)");
  EXPECT_EQ(print(*graph, footprint(*graph)), "%u: read\n  load unknown for %i for %j\n  load unknown while\n");
}

TEST(Graph, ReplaceUsesFollowsChains) {
  const auto graph = parse("region @r(%a: i64, %b: i64, %c: i64) {\n %d = add %a, %b : i64\n yield %d, %a\n}");
  std::vector<Value*> to(graph->value_count());
  const auto& args = graph->body->args;
  to[args[0]->id] = args[1];
  to[args[1]->id] = args[2];
  replace_uses(*graph, to);
  EXPECT_NE(print(*graph).find("add %c, %c"), std::string::npos);
  EXPECT_NE(print(*graph).find("yield %d, %c"), std::string::npos);
  replace_uses(*graph, args[2], args[0]);
  EXPECT_NE(print(*graph).find("add %a, %a"), std::string::npos);
}

TEST(Graph, RenumberKeepsTheOrderOfWhatStands) {
  const auto graph = parse(kStencil);
  std::vector<Value*> before;
  const auto collect = [&](std::vector<Value*>& into) {
    into = graph->body->args;
    walk(*graph->body, [&](Op& op) {
      into.insert(into.end(), op.results.begin(), op.results.end());
      for (const Block* inner : op.blocks) into.insert(into.end(), inner->args.begin(), inner->args.end());
    });
    std::sort(into.begin(), into.end(), [](const Value* a, const Value* b) { return a->id < b->id; });
  };
  Op* inner = graph->body->first->next->blocks[0]->first;
  for (const Opcode code : {Opcode::atomic_, Opcode::store_, Opcode::add_}) {
    walk(*inner->blocks[0], [&](Op& op) {
      if (op.code == code) op.parent->remove(&op);
    });
  }
  collect(before);
  const std::string text = print(*graph);
  graph->renumber();
  std::vector<Value*> after;
  collect(after);
  EXPECT_EQ(after, before);
  for (size_t k = 0; k < after.size(); ++k) EXPECT_EQ(after[k]->id, k);
  EXPECT_EQ(graph->value_count(), after.size());
  EXPECT_EQ(print(*graph), text);
  EXPECT_EQ(graph->new_value(scalar(DType::i64_), nullptr, graph->body, 0)->id, after.size());
}

TEST(Graph, WalkMayRemoveItsOp) {
  const auto graph = parse(kStencil);
  int seen = 0;
  walk(*graph->body, [&](Op& op) {
    ++seen;
    if (op.code == Opcode::store_) op.parent->remove(&op);
  });
  EXPECT_EQ(seen, 14);
  EXPECT_EQ(print(*graph).find("store"), std::string::npos);
  EXPECT_EQ(verify(*graph), "");
}

TEST(Graph, EnclosingLoopAndVisibility) {
  const auto graph = parse(kStencil);
  Op* outer = graph->body->first->next;
  Op* inner = outer->blocks[0]->first;
  EXPECT_EQ(enclosing_loop(*graph->body), nullptr);
  EXPECT_EQ(enclosing_loop(*outer->blocks[0]), outer);
  EXPECT_EQ(enclosing_loop(*inner->blocks[0]), inner);
  const Value& i = *outer->blocks[0]->args[0];
  EXPECT_FALSE(defined_outside(i, *outer->blocks[0]));
  EXPECT_TRUE(defined_outside(i, *inner->blocks[0]));
  EXPECT_FALSE(defined_outside(*inner->blocks[0]->first->result(), *outer->blocks[0]));
  EXPECT_TRUE(defined_outside(*graph->body->args[0], *outer->blocks[0]));
}

TEST(Graph, CloneSharesNothing) {
  auto graph = parse(kStencil);
  const auto copy = clone(*graph);
  graph.reset();
  EXPECT_EQ(print(*copy), kStencil);
  EXPECT_EQ(verify(*copy), "");
}

TEST(Graph, LocationsAreShared) {
  Graph g;
  const LocId a = g.add_loc({"f", 1, 2, 0});
  EXPECT_EQ(g.add_loc({"f", 1, 3, 0}), a + 1);
  EXPECT_EQ(g.add_loc({"f", 1, 2, 0}), a);
  EXPECT_NE(g.add_loc({"f", 1, 2, a}), a);
}

/// Random well-formed graphs: every op, nested control flow, every attribute.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}

  std::unique_ptr<Graph> graph() {
    auto made = std::make_unique<Graph>();
    Builder b(*made);
    made->exact = below(2);
    made->may_alias = below(2);
    for (int i = 0; i <= static_cast<int>(DType::f64_); ++i) {
      pool_.push_back(add_arg(*made->body, scalar(static_cast<DType>(i)), below(2) ? "p" : ""));
    }
    for (int i = 0; i < 3; ++i) {
      const Type type{static_cast<DType>(below(11)), static_cast<int8_t>(below(3)), static_cast<Layout>(below(4))};
      views_.push_back(add_arg(*made->body, type, "view"));
    }
    body(b, 0);
    b.yield({});
    return made;
  }

 private:
  uint64_t below(uint64_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return (state_ >> 11) % n;
  }

  Value* any(DType t) {
    for (;;) {
      Value* v = pool_[below(pool_.size())];
      if (v->type == scalar(t)) return v;
    }
  }
  Value* any() { return pool_[below(pool_.size())]; }

  void add(Value* v) {
    constexpr const char* kNames[] = {"", "", "x", "a.1", "größe", "a b"};
    v->name = kNames[below(6)];
    pool_.push_back(v);
  }

  std::vector<Value*> subscripts(const Value& view) {
    std::vector<Value*> made;
    for (int d = 0; d < view.type.rank; ++d) made.push_back(any(DType::i64_));
    return made;
  }

  void perturb(Op& op) {
    for (auto& offset : op.access->offset) offset = static_cast<int64_t>(below(9)) - 4;
    for (auto& row : op.access->coef) {
      for (auto& c : row) c = static_cast<int64_t>(below(5)) - 2;
    }
  }

  void body(Builder& b, int depth) {
    for (uint64_t n = 2 + below(8); n > 0; --n) statement(b, depth);
  }

  void statement(Builder& b, int depth) {
    b.set_loc(b.graph().add_loc({"f.py", static_cast<int>(below(5)), 1,
                                 static_cast<LocId>(below(std::min<size_t>(3, b.graph().locs.size())))}));
    switch (below(depth < 3 ? 10 : 7)) {
      case 0:
        return add(b.constant(static_cast<DType>(below(11)), below(3) ? below(100) : state_ * 0x9e3779b97f4a7c15u));
      case 1:
        return add(b.cast(any(), static_cast<DType>(below(11))));
      case 2: {
        Value* view = views_[below(3)];
        Value* v = b.load(view, subscripts(*view));
        perturb(*v->op);
        return add(v);
      }
      case 3: {
        Value* view = views_[below(3)];
        perturb(*b.store(any(view->type.dtype), view, subscripts(*view)));
        return;
      }
      case 4: {
        Check check;
        check.kind = CheckKind::value_;
        check.declines = below(2);
        check.text = below(2) ? "say \"no\"\n" : "";
        b.check(check, any(DType::bool_), {}, {});
        return;
      }
      case 5:
      case 6:
        return pure(b);
      case 7:
        return loop(b, depth);
      case 8: {
        Value* init = any();
        Value* inits[] = {init};
        Op* op = b.while_loop(inits);
        nested(b, *op->blocks[0], depth, Opcode::break_, {init->type});
        return add(op->result());
      }
      default: {
        const Type type = any()->type;
        Op* op = b.if_op(any(DType::bool_), std::span<const Type>(&type, 1));
        nested(b, *op->blocks[0], depth, Opcode::yield_, {type});
        nested(b, *op->blocks[1], depth, Opcode::yield_, {type});
        return add(op->result());
      }
    }
  }

  void pure(Builder& b) {
    for (;;) {
      const auto code = static_cast<Opcode>(below(static_cast<uint64_t>(Opcode::wrap_) + 1));
      const Rule rule = info(code).rule;
      if (!is_pure(code) || rule == Rule::given || code == Opcode::dim_) continue;
      const DType t = any()->type.dtype;
      std::vector<Value*> operands;
      if (rule == Rule::cond) operands.push_back(any(DType::bool_));
      while (operands.size() < static_cast<size_t>(info(code).arity)) operands.push_back(any(t));
      try {
        return add(b.op(code, operands));
      } catch (const std::logic_error&) {
        continue;  // this op does not accept the type
      }
    }
  }

  void loop(Builder& b, int depth) {
    Loop loop;
    loop.parallel = below(2);
    loop.simd = below(2);
    loop.annotated = below(2);
    loop.schedule = static_cast<Schedule>(below(3));
    loop.chunk = static_cast<int64_t>(below(3));
    loop.le = static_cast<int64_t>(below(3));
    loop.threads = static_cast<int32_t>(below(3));
    loop.collapse = 1 + static_cast<int32_t>(below(3));
    std::vector<Value*> inits = {any(DType::f64_), any(DType::i64_), any()};
    loop.carried = {{Combiner::pymin_, -1, 1}, {Combiner::follow_first_, 0, -1}, {}};
    std::vector<Type> types;
    for (const Value* v : inits) types.push_back(v->type);
    Op* op = b.for_loop(any(DType::i64_), any(DType::i64_), any(DType::i64_), inits, loop);
    nested(b, *op->blocks[0], depth, below(4) ? Opcode::yield_ : Opcode::continue_, types);
    for (Value* v : op->results) add(v);
  }

  void nested(Builder& b, Block& block, int depth, Opcode end, const std::vector<Type>& types) {
    Block* back = b.block();
    const size_t outer = pool_.size();
    for (Value* arg : block.args) add(arg);
    b.set_block(&block);
    body(b, depth + 1);
    std::vector<Value*> values;
    for (const Type& t : types) values.push_back(any(t.dtype));
    b.terminator(end, values);
    pool_.resize(outer);
    b.set_block(back);
  }

  uint64_t state_;
  std::vector<Value*> pool_;
  std::vector<Value*> views_;
};

TEST(Random, GraphsVerifyAndRoundTrip) {
  size_t longest = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto graph = Random(seed).graph();
    ASSERT_EQ(verify(*graph), "") << print(*graph);
    for (const bool locs : {false, true}) {
      const std::string text = print(*graph, PrintOptions{.locs = locs});
      const auto parsed = parse(text);
      ASSERT_EQ(print(*parsed, PrintOptions{.locs = locs}), text);
      ASSERT_EQ(verify(*parsed), "");
      longest = std::max(longest, text.size());
    }
    ASSERT_EQ(print(*clone(*graph), PrintOptions{.locs = true}), print(*graph, PrintOptions{.locs = true}));
  }
  EXPECT_GT(longest, 5000u);
}

/// Damaged text is a ParseError or a graph that the verifier can look at: never a crash.
TEST(Random, DamagedTextIsRefusedOrVerified) {
  uint64_t state = 88172645463325252u;
  const auto below = [&](uint64_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) % n;
  };
  int refused = 0, taken = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string text = print(*Random(seed).graph());
    for (int i = 0; i < 25; ++i) {
      std::string damaged = text;
      const size_t at = below(damaged.size());
      if (below(2)) {
        damaged.erase(at, 1 + below(6));
      } else {
        damaged.insert(at, damaged.substr(below(damaged.size()), 1 + below(6)));
      }
      try {
        const auto graph = parse(damaged);
        verify(*graph);
        ++taken;
      } catch (const ParseError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(taken, 10);
}

}  // namespace
}  // namespace appy::ir
