#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace appy::ir {
namespace {

constexpr const char* kHead = "region @r(%n: i64, %a: f64, %b: bool, %x: f64[2,c], %k: i32[1,c]) {\n";

/// Faults of a region with this body; views, scalars as in kHead.
std::string faults(const std::string& body) { return verify(*parse(kHead + body + "}\n")); }

/// The body has exactly one fault, at the op that is printed so.
void expect_fault(const std::string& body, const std::string& fault) { EXPECT_EQ(faults(body), fault + "\n") << body; }

/// Parses, breaks the first op with `damage`, verifies.
template <class F>
std::string damaged(const std::string& body, F&& damage) {
  const auto graph = parse(kHead + body + "}\n");
  damage(*graph->body->first);
  return verify(*graph);
}

TEST(Verify, AcceptsEveryForm) {
  EXPECT_EQ(faults(R"(
    %z = const 0.0 : f64
    %d = dim 1 %x : i64
    %r, %p, %f, %h = for parallel simd %i = %n to %d step %n carry(sum %s = %a, pymax(tie 2) %m = %a, follow_last(leader 1) %t = %n, last %l = %n) : f64, f64, i64, i64 {
      %v = load %x[%i, 2*%n + 1] : f64
      %w = fma %v, %a, %z : f64
      %g = gt %w, %m : bool
      %q = if %g : f64 {
        continue %s, %m, %t, %i
      } else {
        check bounds %g info(%i, %n, %n) state(%s, %t)
        check value %g : "text"
        check bounds %g declines
        poll state(%s, %t)
        yield %w
      }
      store %q, %x[%i, %i]
      atomic minimum %q, %x[%i, %i]
      yield %q, %m, %i, %i
    }
    %e = while carry(%c = %n) : i64 {
      break %c
    }
    yield %a, %e
  )"),
            "");
  EXPECT_EQ(faults("%r = for %i = %n to %n step %n carry(%c = %a) : f64 {\n if %b {\n break %c\n } else {\n yield\n }\n"
                   " %d = neg %c : f64\n yield %d\n }\n yield %r\n"),
            "");
}

TEST(Verify, Allocs) {
  EXPECT_EQ(faults(R"(
    %t = alloc %n, %n slot 3 escapes : f64[2,c]
    for %i = %n to %n step %n {
      %u = alloc slot 1 : i64[0,c]
      store %i, %u[]
      %d = dim 1 %t : i64
      yield
    }
    yield
  )"),
            "");
  expect_fault("%t = alloc %n slot 0 : f64[2,c]\n yield\n",
               "%t = alloc %n slot 0 : f64[2,c]: expected one extent a dimension");
  expect_fault("%t = alloc %a slot 0 : f64[1,c]\n yield\n", "%t = alloc %a slot 0 : f64[1,c]: an extent must be i64");
  expect_fault("%t = alloc %n slot 0 : f64[1,inner]\n yield\n",
               "%t = alloc %n slot 0 : f64[1,inner]: the array's layout is c or f");
  expect_fault("%t = alloc slot 0 : f64\n yield\n", "%t = alloc slot 0 : f64: expected a view as result");
  expect_fault("%t = neg %n : f64[1,c]\n yield\n", "%t = neg %n : f64[1,c]: only an alloc gives a view");
  expect_fault("%t = alloc slot 0 : f64[0,c]\n %u = alloc slot 0 : f64[0,c]\n yield\n",
               "%u = alloc slot 0 : f64[0,c]: another alloc has its slot");
  expect_fault("if %b {\n %t = alloc slot 0 escapes : f64[0,c]\n yield\n } else {\n yield\n }\n yield\n",
               "%t = alloc slot 0 escapes : f64[0,c]: an array that escapes is made in the region's own block");
  expect_fault("%t = alloc %n slot 0 lead 8 : f64[1,c]\n yield\n",
               "%t = alloc %n slot 0 lead 8 : f64[1,c]: its lead is not within a line of the cache");
  expect_fault("%t = alloc %n slot 0 escapes lead 7 : f64[1,c]\n yield\n",
               "%t = alloc %n slot 0 escapes lead 7 : f64[1,c]: an array that escapes has no lead");
  EXPECT_EQ(damaged("%d = neg %n : i64\n yield\n", [](Op& op) { op.lead = 1; }),
            "%d = neg %n : i64: only an alloc has a lead\n");
  expect_fault("%t = alloc slot 0 : f64[0,c]\n yield %t\n", "yield %t: a result of the region must be a scalar");
  EXPECT_NE(faults("%t = alloc slot 0 : f64[0,c]\n %u = if %b : f64[0,c] {\n yield %t\n } else {\n yield %t\n }\n"
                   " yield\n"),
            "");
  EXPECT_EQ(damaged("%t = alloc slot 0 : f64[0,c]\n yield\n", [](Op& op) { op.slot = -1; }),
            "%t = alloc slot -1 : f64[0,c]: has no slot\n");
}

TEST(Verify, Terminators) {
  EXPECT_EQ(faults(""), "region: is empty, expected a terminator\n");
  expect_fault("%m = neg %n : i64\n", "%m = neg %n : i64: ends its block, expected a terminator");
  expect_fault("yield\n yield\n", "yield: stands before the end of its block");
  expect_fault("break\n", "break: stands in no loop");
  expect_fault("if %b {\n continue\n } else {\n yield\n }\n yield\n", "continue: stands in no loop");
  expect_fault("yield %x\n", "yield %x: a result of the region must be a scalar");
  expect_fault("%r = if %b : f64 {\n yield %a\n } else {\n yield %n\n }\n yield\n",
               "yield %n: expected values of types (f64), got (i64)");
  expect_fault("%r = if %b : f64 {\n yield %a\n } else {\n yield\n }\n yield\n",
               "yield: expected values of types (f64), got ()");
  expect_fault("%r = while carry(%c = %a) : f64 {\n if %b {\n break %n\n } else {\n yield\n }\n yield %c\n }\n yield\n",
               "break %n: expected values of types (f64), got (i64)");
  expect_fault("for %i = %n to %n step %n {\n if %b {\n continue %n\n } else {\n yield\n }\n yield\n }\n yield\n",
               "continue %n: expected values of types (), got (i64)");
  EXPECT_EQ(damaged("if %b {\n yield\n } else {\n yield\n }\n yield\n",
                    [](Op& op) { op.blocks[1]->remove(op.blocks[1]->first); }),
            "block of if: is empty, expected a terminator\n");
}

TEST(Verify, OperandAndResultTypes) {
  expect_fault("%m = add %n, %a : i64\n yield\n",
               "%m = add %n, %a : i64: expected i64 like the first operand, got f64");
  expect_fault("%m = add %n, %n : f64\n yield\n", "%m = add %n, %n : f64: result must be i64, is f64");
  expect_fault("%m = add %b, %b : bool\n yield\n", "%m = add %b, %b : bool: not defined for bool");
  expect_fault("%m = div %n, %n : i64\n yield\n", "%m = div %n, %n : i64: not defined for i64");
  expect_fault("%m = sqrt %n : i64\n yield\n", "%m = sqrt %n : i64: not defined for i64");
  expect_fault("%m = and %a, %a : f64\n yield\n", "%m = and %a, %a : f64: not defined for f64");
  expect_fault("%m = shl %b, %b : bool\n yield\n", "%m = shl %b, %b : bool: not defined for bool");
  expect_fault("%m = isnan %n : bool\n yield\n", "%m = isnan %n : bool: not defined for i64");
  expect_fault("%m = lt %n, %n : i64\n yield\n", "%m = lt %n, %n : i64: result must be bool, is i64");
  expect_fault("%m = neg %x : f64\n yield\n", "%m = neg %x : f64: expected a scalar, got f64 view");
  expect_fault("%m = select %n, %a, %a : f64\n yield\n",
               "%m = select %n, %a, %a : f64: expected bool as operand 0, got i64");
  expect_fault("%m = select %b, %a, %n : f64\n yield\n",
               "%m = select %b, %a, %n : f64: expected f64 like the first operand, got i64");
  expect_fault("%m = bitcast %n : f32\n yield\n", "%m = bitcast %n : f32: a bitcast keeps the width");
  expect_fault("%m = bitcast %b : i8\n %o = bitcast %m : bool\n yield\n",
               "%o = bitcast %m : bool: a bitcast cannot give bool");
  expect_fault("%m = dim 2 %x : i64\n yield\n", "%m = dim 2 %x : i64: no such dimension");
  expect_fault("%m = dim 0 %n : i64\n yield\n", "%m = dim 0 %n : i64: expected a view, got i64");
  expect_fault("%m = dim 0 %x : i32\n yield\n", "%m = dim 0 %x : i32: result must be i64");
  expect_fault("%m = cast %a : i64[1,c]\n yield\n", "%m = cast %a : i64[1,c]: only an alloc gives a view");
  expect_fault("if %n {\n yield\n } else {\n yield\n }\n yield\n", "if %n: expected one bool operand");
  EXPECT_EQ(damaged("%m = const 1 : i8\n yield\n", [](Op& op) { op.imm = 200; }),
            "%m = const 0xc8 : i8: the word is not one of its type\n");
  EXPECT_EQ(damaged("%m = neg %n : i64\n yield\n", [](Op& op) { op.operands.push_back(op.operands[0]); }),
            "%m = neg %n, %n : i64: expected 1 operands, got 2\n");
  EXPECT_EQ(damaged("%m = neg %n : i64\n yield\n", [](Op& op) { op.operands[0] = nullptr; }), "neg: null value\n");
}

TEST(Verify, Accesses) {
  expect_fault("%v = load %x[%n, %n] : f32\n yield\n", "%v = load %x[%n, %n] : f32: expected the element type f64");
  expect_fault("store %n, %x[%n, %n]\n yield\n", "store %n, %x[%n, %n]: expected the element type f64");
  expect_fault("store %a, %n[%n]\n yield\n", "store %a, %n[%n]: expected a view");
  expect_fault("%v = load %x[%n, %b] : f64\n yield\n", "%v = load %x[%n, %b] : f64: a term must be i64");
  expect_fault("atomic recur %a, %x[%n, %n]\n yield\n", "atomic recur %a, %x[%n, %n]: no update: recur");
  expect_fault("atomic last %a, %x[%n, %n]\n yield\n", "atomic last %a, %x[%n, %n]: no update: last");
  expect_fault("atomic xor %a, %x[%n, %n]\n yield\n", "atomic xor %a, %x[%n, %n]: cannot update f64");
  const std::string load = "%v = load %x[%n, 1] : f64\n yield\n";
  EXPECT_EQ(damaged(load, [](Op& op) { op.access->offset.pop_back(); }),
            "%v = load %x[?] : f64: expected 2 subscripts\n");
  EXPECT_EQ(damaged(load, [](Op& op) { op.access->coef.pop_back(); }),
            "%v = load %x[?] : f64: expected 2 subscripts\n");
  EXPECT_EQ(damaged(load, [](Op& op) { op.access->coef[1].push_back(0); }),
            "%v = load %x[?] : f64: expected one coefficient a term\n");
  EXPECT_EQ(damaged(load, [](Op& op) { op.access->terms = 2; }),
            "%v = load %x[?] : f64: expected 1 operands and 2 terms\n");
  EXPECT_EQ(damaged(load, [](Op& op) { op.access.reset(); }), "%v = load %x[?] : f64: has no access\n");
}

TEST(Verify, ChecksAndState) {
  expect_fault("check value %n\n yield\n", "check value %n: the condition must be bool");
  expect_fault("check bounds %b\n yield\n", "check bounds %b: expected 3 info words");
  expect_fault("check value %b info(%n)\n yield\n", "check value %b info(%n): expected 0 info words");
  expect_fault("check fits %b info(%x)\n yield\n", "check fits %b info(%x): an info word is a scalar");
  expect_fault("check value %b state(%n)\n yield\n", "check value %b state(%n): expected state of types (), got (i64)");
  expect_fault("check value %b state(%n)\n yield %a\n",
               "check value %b state(%n): expected state of types (f64), got (i64)");
  expect_fault("check value %b state()\n yield %a\n", "check value %b state(): expected state of types (f64), got ()");
  expect_fault("poll state(%a, %a)\n yield %a\n", "poll state(%a, %a): expected state of types (f64), got (f64, f64)");
  EXPECT_EQ(faults("check value %b\n poll\n check overflow %b state(%a)\n yield %a\n"), "");
  EXPECT_EQ(damaged("check value %b state(%n)\n yield %n\n", [](Op& op) { op.check->has_state = false; }),
            "check value %b state(%n): operands after the info words need has_state\n");
  EXPECT_EQ(damaged("check value %b\n yield\n", [](Op& op) { op.check->ninfo = 2; }),
            "check value %b: too few operands\n");
  EXPECT_EQ(damaged("check value %b\n yield\n", [](Op& op) { op.check.reset(); }), "check ?: has no Check\n");
}

std::string loop_faults(const std::string& carry, const std::string& types, const std::string& values) {
  std::string results;
  for (char c : types) {
    if (c == ',' || results.empty()) results += (results.empty() ? "%r" : ", %r") + std::to_string(results.size());
  }
  const std::string all = faults(results + " = for %i = %n to %n step %n carry(" + carry + ") : " + types +
                                 " {\n yield " + values + "\n }\n yield\n");
  const size_t at = all.find("carried value");
  return at == std::string::npos ? all : all.substr(at);
}

TEST(Verify, Loops) {
  expect_fault("for %i = %n to %a step %n {\n yield\n }\n yield\n",
               "for %i = %n to %a step %n: bounds and step must be i64");
  const std::string loop = "%r = for %i = %n to %n step %n carry(%c = %a) : f64 {\n yield %a\n }\n yield\n";
  EXPECT_EQ(faults(loop), "");
  const std::string line = "%r = for %i = %n to %n step %n carry(%c = %a) : f64: ";
  EXPECT_EQ(damaged(loop, [](Op& op) { op.loop->carried.clear(); }), line + "expected one Carried a carried value\n");
  EXPECT_EQ(damaged(loop, [](Op& op) { op.loop->collapse = 0; }),
            "%r = for collapse(0) %i = %n to %n step %n carry(%c = %a) : f64: a negative loop attribute\n");
  EXPECT_NE(damaged(loop, [](Op& op) { op.blocks[0]->args[1]->type = scalar(DType::f32_); })
                .find("block arguments unlike the carried values"),
            std::string::npos);
  EXPECT_NE(damaged(loop, [](Op& op) { op.results[0]->type = scalar(DType::f32_); })
                .find("results unlike the carried values (f64)"),
            std::string::npos);
  EXPECT_NE(damaged(loop, [](Op& op) { op.blocks[0]->args.pop_back(); }).find("expected 2 block arguments"),
            std::string::npos);
  EXPECT_NE(damaged(loop, [](Op& op) { op.operands.resize(2); }).find("expected lower, upper and step"),
            std::string::npos);
  EXPECT_NE(damaged(loop, [](Op& op) { op.blocks.clear(); }).find("expected 1 blocks"), std::string::npos);
  expect_fault("%r = while carry(%c = %n) : f64 {\n break %c\n }\n yield\n",
               "%r = while carry(%c = %n) : f64: block arguments unlike the carried values");
}

TEST(Verify, WhoRunsALoop) {
  const auto loop = [](const std::string& mapping, const std::string& body) {
    return "for parallel simd " + mapping + " %i" + std::to_string(body.size()) + " = %n to %n step %n {\n" + body +
           "yield\n}\n";
  };
  const std::string workers = "mapped(workers)", lanes = "mapped(lanes)", threads = "mapped(threads)",
                    single = "mapped(single)";
  EXPECT_EQ(
      faults(loop(workers, loop(workers, loop(lanes, loop("", "")) + "barrier lanes\n" + loop(single, ""))) +
             "barrier workers\nbarrier lanes\n" + loop(threads, loop(threads, loop("", ""))) +
             loop("", loop(single, "") + "barrier workers\n" + loop(workers, loop("", loop(lanes, "")))) + "yield\n"),
      "");
  const auto has = [](const std::string& body, const std::string& fault) {
    const std::string found = faults(body + "yield\n");
    EXPECT_NE(found.find(fault), std::string::npos) << body << found;
  };
  has(loop(lanes, ""), "mapped to lanes inside none");
  has(loop(threads, loop(workers, "")), "mapped to workers inside threads");
  has(loop(workers, loop(threads, "")), "mapped to threads inside workers");
  has(loop(workers, loop(lanes, loop(lanes, ""))), "mapped to lanes inside lanes");
  has(loop(workers, loop("", loop(lanes, loop(single, "")))), "mapped to single inside lanes");
  has(loop(single, loop("", loop(threads, ""))), "mapped to threads inside single");
  has("%e = while mapped(threads) carry(%c = %n) : i64 {\nbreak %c\n}\n", "a while to single alone");
  has(loop(workers, "barrier workers\n"), "not all of those that wait come here: inside workers");
  has(loop(threads, "barrier lanes\n"), "not all of those that wait come here: inside threads");
  has(loop(workers, loop(lanes, loop("", "barrier lanes\n"))), "inside lanes");
}

TEST(Verify, Combiners) {
  EXPECT_EQ(loop_faults("and %c = %a", "f64", "%c"), "carried value 0: and is not defined for f64\n");
  EXPECT_EQ(loop_faults("sum %c = %b", "bool", "%c"), "carried value 0: sum is not defined for bool\n");
  EXPECT_EQ(loop_faults("and %c = %b, xor %d = %n, prod %e = %a", "bool, i64, f64", "%c, %d, %e"), "");
  EXPECT_EQ(loop_faults("follow_first %c = %n", "i64", "%c"),
            "carried value 0: follow_first needs a leader that is a minimum or maximum\n");
  EXPECT_EQ(loop_faults("follow_first(leader 7) %c = %n", "i64", "%c"),
            "carried value 0: follow_first needs a leader that is a minimum or maximum\n");
  EXPECT_EQ(loop_faults("follow_first(leader 1) %c = %n, sum %d = %n", "i64, i64", "%c, %d"),
            "carried value 0: follow_first needs a leader that is a minimum or maximum\n");
  EXPECT_EQ(loop_faults("follow_first(leader 1) %c = %n, pymin %d = %n", "i64, i64", "%c, %d"),
            "carried value 0: its leader has no tie\n");
  EXPECT_EQ(loop_faults("sum(leader 0) %c = %n", "i64", "%c"), "carried value 0: sum has no leader\n");
  EXPECT_EQ(loop_faults("sum(tie 0) %c = %n", "i64", "%c"), "carried value 0: sum has no tie\n");
  EXPECT_EQ(loop_faults("pymin(tie 4) %c = %n", "i64", "%c"), "carried value 0: tie is no carried index\n");
  EXPECT_EQ(loop_faults("pymin(tie 1) %c = %n, sum %d = %n", "i64, i64", "%c, %d"),
            "carried value 0: its tie must follow it\n");
  EXPECT_EQ(loop_faults("pymin(tie 1) %c = %n, follow_last(leader 0) %d = %a", "i64, f64", "%c, %d"),
            "carried value 0: its tie must be i64\n");
  EXPECT_EQ(loop_faults("last %c = %n", "i64", "%i"), "");
  EXPECT_EQ(loop_faults("last %c = %n", "i64", "%c"), "carried value 0: last is read in the body\n");
  EXPECT_EQ(faults("%r = for %i = %n to %n step %n carry(last %c = %n) : i64 {\n poll state(%c)\n"
                   " check value %b state(%c)\n yield %i\n }\n yield %r\n"),
            "");
}

TEST(Verify, Visibility) {
  const std::string body = "if %b {\n %v = neg %n : i64\n yield\n } else {\n %w = neg %n : i64\n yield\n }\n yield\n";
  EXPECT_EQ(faults(body), "");
  EXPECT_EQ(damaged(body, [](Op& op) { op.blocks[1]->first->operands[0] = op.blocks[0]->first->result(); }),
            "%w = neg %v : i64: %v is not visible here\n");
  EXPECT_EQ(damaged(body, [](Op& op) { op.blocks[0]->first->operands[0] = op.blocks[0]->first->result(); }),
            "%v = neg %v : i64: %v is not visible here\n");
  EXPECT_EQ(damaged("%v = neg %n : i64\n %w = neg %v : i64\n yield\n",
                    [](Op& op) {
                      Block* block = op.parent;
                      block->remove(&op);
                      block->insert_before(block->last, &op);
                    }),
            "%w = neg %v : i64: %v is not visible here\n");
  const std::string loop = "%r = for %i = %n to %n step %n carry(%c = %n) : i64 {\n yield %i\n }\n yield %r\n";
  EXPECT_EQ(damaged(loop, [](Op& op) { op.operands[1] = op.blocks[0]->args[0]; }),
            "%r = for %i = %n to %i step %n carry(%c = %n) : i64: %i is not visible here\n");
  EXPECT_EQ(damaged(loop, [](Op& op) { op.blocks[0]->last->operands[0] = op.results[0]; }),
            "yield %r: %r is not visible here\n");
  EXPECT_EQ(damaged(loop, [](Op& op) { op.next->operands[0] = op.blocks[0]->args[0]; }),
            "yield %i: %i is not visible here\n");
  Graph other;
  Value* foreign = add_arg(*other.body, scalar(DType::i64_));
  EXPECT_EQ(damaged("%v = neg %n : i64\n yield\n", [&](Op& op) { op.operands[0] = foreign; }).substr(0, 8), "%v = neg");
}

TEST(Verify, Links) {
  const std::string body = "%v = neg %n : i64\n %w = neg %v : i64\n yield\n";
  EXPECT_EQ(damaged(body, [](Op& op) { op.next->prev = nullptr; }), "region: broken links between ops\n");
  EXPECT_EQ(damaged(body, [](Op& op) { op.parent->last = &op; }).substr(0, 31), "region: broken links between op");
  EXPECT_EQ(damaged(body, [](Op& op) { op.results[0]->index = 3; }), "value %v: does not know its definition\n");
  EXPECT_EQ(damaged(body, [](Op& op) { op.next->results[0] = op.results[0]; }),
            "value %v.1: does not know its definition\nvalue %v.1: is defined twice\n");
  EXPECT_EQ(damaged(body, [](Op& op) { op.loc = 9; }), "%v = neg %n : i64: unknown location\n");
  EXPECT_EQ(damaged("if %b {\n yield\n } else {\n yield\n }\n yield\n", [](Op& op) { op.blocks[0]->owner = nullptr; })
                .substr(0, 25),
            "block of if: wrong owner\n");
}

TEST(Verify, RegionAttributes) {
  EXPECT_EQ(verify(*parse("region @r(%n: i64) results(\"a\", \"b\") {\n yield %n\n}")),
            "region: 2 result names for 1 results\n");
  EXPECT_EQ(verify(*parse("region @r(%a: f64 in [0, 1]) {\n yield\n}")), "region: only an integer has a range: %a\n");
  const auto graph = parse("region @r(%x: f64[1,c]) given([3]) {\n yield\n}");
  EXPECT_EQ(verify(*graph), "");
  graph->given.pop_back();
  EXPECT_EQ(verify(*graph), "region: is given another number of words\n");
}

TEST(Builder, RefusesWhatTheVerifierWouldRefuse) {
  Graph g;
  Value* n = add_arg(*g.body, scalar(DType::i64_));
  Value* a = add_arg(*g.body, scalar(DType::f64_));
  Value* x = add_arg(*g.body, {DType::f64_, 1, Layout::c});
  Builder b(g);
  Value* two[] = {n, n};
  Value* real[] = {a};
  Value* one[] = {n};
  EXPECT_THROW(b.op(Opcode::add_, {n, a}), std::logic_error);
  EXPECT_THROW(b.op(Opcode::add_, {n}), std::logic_error);
  EXPECT_THROW(b.op(Opcode::sqrt_, {n}), std::logic_error);
  EXPECT_THROW(b.op(Opcode::cast_, {n}), std::logic_error);
  EXPECT_THROW(b.op(Opcode::load_, {x}), std::logic_error);
  EXPECT_THROW(b.dim(x, 1), std::logic_error);
  EXPECT_THROW(b.load(x, two), std::logic_error);
  EXPECT_THROW(b.load(x, real), std::logic_error);
  EXPECT_THROW(b.load(n, {}), std::logic_error);
  EXPECT_THROW(b.store(n, x, one), std::logic_error);
  EXPECT_THROW(b.atomic(Combiner::sum_, n, x, one), std::logic_error);
  EXPECT_THROW(b.check({}, n, {}, {}), std::logic_error);
  EXPECT_THROW(b.for_loop(n, a, n, {}, {}), std::logic_error);
  EXPECT_THROW(b.if_op(n, {}), std::logic_error);
  EXPECT_THROW(b.terminator(Opcode::add_, {}), std::logic_error);
  EXPECT_EQ(b.cast(n, DType::i64_), n);
  EXPECT_EQ(g.body->first, nullptr);
  b.yield({});
  EXPECT_EQ(verify(g), "");
}

TEST(Builder, InsertsBeforeAnOp) {
  Graph g;
  Builder b(g);
  Op* end = b.yield({});
  b.set_before(end);
  b.i64(1);
  b.i64(2);
  EXPECT_EQ(print(g), "region @region() {\n  %0 = const 1 : i64\n  %1 = const 2 : i64\n  yield\n}\n");
}

}  // namespace
}  // namespace appy::ir
