// Scalar code against the reference evaluator: every op on every type, on operands at the edges of the types.
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

}  // namespace
}  // namespace appy::cpu::testing
