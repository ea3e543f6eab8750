// Scalar code against the reference evaluator: every op on every type, on operands at the edges of the types.
#include <regex>

#include "cpu_samples.h"

namespace appy::cpu::testing {
namespace {

using ir::Opcode;

TEST(CpuScalar, EveryPureOpOnEveryType) {
  for (Opcode code : kOps) {
    const ir::OpInfo& info = ir::info(code);
    if (info.effect != ir::Effect::pure || code == Opcode::const_ || code == Opcode::dim_ || code == Opcode::scale_ ||
        code == Opcode::cast_ || code == Opcode::bitcast_ || code == Opcode::select_) {
      continue;
    }
    for (DType t : kTypes) {
      if (!ir::accepts(code, t)) continue;
      const std::string type(ir::name_of(t));
      const std::string result = info.rule == ir::Rule::boolean ? "bool" : info.rule == ir::Rule::index ? "i64" : type;
      std::string text =
          "region @r(%a: " + type + ", %b: " + type + ", %c: " + type + ") {\n  %r = " + std::string(info.name) + " %a";
      if (info.arity > 1) text += ", %b";
      if (info.arity > 2) text += ", %c";
      text += " : " + result + "\n  yield %r\n}\n";
      auto graph = ir::parse(text);
      ASSERT_EQ(ir::verify(*graph), "") << text;
      for (Isa isa : isas()) {
        auto kernel = code_of(*graph, isa);
        for (Word a : samples(t)) {
          for (Word b : info.arity > 1 ? samples(t) : std::vector<Word>{0}) {
            Word args[] = {a, b, samples(t)[samples(t).size() / 2]};
            Word out = 0;
            runtime::Invocation invocation;
            invocation.args = args;
            invocation.results = &out;
            ASSERT_EQ(kernel->run(invocation), runtime::Status::done);
            const Word want = ir::evaluate(*graph, args).results[0];
            const int64_t ulps = elementary(code) ? 4 : 0;
            ASSERT_TRUE(same(out, want, graph->body->last->operands[0]->type.dtype, ulps))
                << name_of(isa) << " " << info.name << " " << type << " " << std::hex << a << " " << b << ": got "
                << out << ", want " << want << "\n"
                << kernel->listing();
          }
        }
      }
    }
  }
}

TEST(CpuScalar, CastsAndSelects) {
  for (DType from : kTypes) {
    for (DType to : kTypes) {
      const std::string f(ir::name_of(from)), t(ir::name_of(to));
      const std::string text = "region @r(%a: " + f + ", %k: bool, %z: " + t + ") {\n  %r = cast %a : " + t +
                               "\n  %s = select %k, %r, %z : " + t + "\n  yield %s\n}\n";
      auto graph = ir::parse(text);
      ASSERT_EQ(ir::verify(*graph), "") << text;
      for (Isa isa : isas()) {
        auto kernel = code_of(*graph, isa);
        for (Word a : samples(from)) {
          for (Word k : {0, 1}) {
            if (!convertible(from, to, a)) continue;  // unspecified
            Word args[] = {a, k, samples(to)[1]};
            Word out = 0;
            runtime::Invocation invocation;
            invocation.args = args;
            invocation.results = &out;
            kernel->run(invocation);
            const Word want = ir::evaluate(*graph, args).results[0];
            ASSERT_TRUE(same(out, want, to, 0)) << name_of(isa) << " " << f << " -> " << t << " " << std::hex << a
                                                << ": got " << out << ", want " << want << "\n"
                                                << kernel->listing();
          }
        }
      }
    }
  }
}

// Loads that arithmetic does by itself, but not behind what may have changed the element.
TEST(CpuScalar, LoadsInTheInstructionsThatNeedThem) {
  const auto text = [](const std::string& type, const std::string& body) {
    return "region @r(%n: i64, %x: " + type + "[1,c], %y: " + type +
           "[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  for annotated %i = %zero to %n step %one {\n" +
           std::regex_replace(body, std::regex("T"), type) + "    yield\n  }\n  yield\n}\n";
  };
  const std::vector<std::string> bodies = {
      "    %a = load %x[%i] : T\n    %b = load %y[%i] : T\n    %r = sub %a, %b : T\n    store %r, %y[%i]\n",
      "    %a = load %x[%i] : T\n    %b = load %y[%i] : T\n    %p = mul %a, %b : T\n    %c = load %x[%i] : T\n"
      "    %r = add %c, %p : T\n    store %r, %y[%i]\n",
      // The element is stored to between its load and its use.
      "    %a = load %x[%i] : T\n    %b = load %y[%i] : T\n    store %a, %y[%i]\n    %r = div %a, %b : T\n"
      "    store %r, %x[%i]\n",
      "    %a = load %x[%i] : T\n    %b = load %y[%i] : T\n    %p = mul %a, %b : T\n    store %a, %y[%i]\n"
      "    %r = sub %a, %p : T\n    store %r, %x[%i]\n",
      // Twice the same, and on the left.
      "    %b = load %y[%i] : T\n    %r = mul %b, %b : T\n    store %r, %y[%i]\n",
      "    %b = load %y[%i] : T\n    %a = load %x[%i] : T\n    %k = lt %a, %b : bool\n    if %k {\n"
      "      store %a, %y[%i]\n      yield\n    } else {\n      yield\n    }\n    %c = load %y[%i] : T\n"
      "    %r = add %b, %c : T\n    store %r, %x[%i]\n"};
  for (const std::string& body : bodies) {
    expect_same(
        text("f64", body),
        {scalar_arg(word(int64_t{9})), array_arg(counting<double>(9), {9}), array_arg(counting<double>(9), {9})}, 1);
    expect_same(text("f32", body),
                {scalar_arg(word(int64_t{9})), array_arg(counting<float>(9), {9}), array_arg(counting<float>(9), {9})},
                1);
    if (::testing::Test::HasFatalFailure()) return;
  }
  auto graph = ir::parse(text("f64", bodies[1]));
  EXPECT_TRUE(
      std::regex_search(code_of(*graph, Isa::avx2)->listing(), std::regex("vfmadd\\d+sd xmm\\d+, xmm\\d+, qword ptr")));
}

}  // namespace
}  // namespace appy::cpu::testing
