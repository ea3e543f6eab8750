// Decoding and control-flow graphs of what the running CPython compiles.
#include "bytecode/bytecode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bytecode/cfg.h"
#include "support/ref.h"

namespace appy::bytecode {
namespace {

class Bytecode : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!Py_IsInitialized()) Py_InitializeEx(0);
  }

  /// The code of `def f(a, b, n, k)` with this body.
  PyCodeObject* compile(const std::string& body) {
    std::string source = "def f(a, b, n, k):\n";
    size_t at = 0;
    while (at < body.size()) {
      const size_t end = body.find('\n', at);
      source += "  " + body.substr(at, end - at) + "\n";
      at = end == std::string::npos ? body.size() : end + 1;
    }
    Ref globals = Ref::steal(PyDict_New());
    PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
    Ref done = Ref::steal(PyRun_String(source.c_str(), Py_file_input, globals.get(), globals.get()));
    if (!done) PyErr_Print();
    EXPECT_TRUE(done) << source;
    code_ = Ref::steal(PyObject_GetAttrString(PyDict_GetItemString(globals.get(), "f"), "__code__"));
    return reinterpret_cast<PyCodeObject*>(code_.get());
  }

  std::vector<Instruction> decode(const std::string& body) { return instructions(compile(body)); }

  static int count(const std::vector<Instruction>& code, Op op) {
    return static_cast<int>(std::count_if(code.begin(), code.end(), [&](const Instruction& i) { return i.op == op; }));
  }

  Ref code_;
};

TEST_F(Bytecode, EveryVersionHasTheSameInstructions) {
  const auto code = decode("for i in range(n):\n  a[i] += b[i] * k\nreturn -k");
  EXPECT_EQ(count(code, Op::for_iter_), 1);
  EXPECT_EQ(count(code, Op::binary_subscr_), 2);
  EXPECT_EQ(count(code, Op::store_subscr_), 1);
  EXPECT_EQ(count(code, Op::call_), 1);
  EXPECT_EQ(count(code, Op::unary_negative_), 1);
  EXPECT_EQ(count(code, Op::return_value_), 1);
  EXPECT_EQ(count(code, Op::unsupported_), 0);
  const auto plus =
      std::find_if(code.begin(), code.end(), [](const auto& i) { return i.op == Op::binary_op_ && i.arg2; });
  ASSERT_NE(plus, code.end());
  EXPECT_EQ(plus->arg, 0);
}

TEST_F(Bytecode, ComparisonsAreNumberedAlike) {
  int expected = 0;
  for (const char* op : {"<", "<=", "==", "!=", ">", ">="}) {
    const auto code = decode(std::string("return a ") + op + " b");
    const auto found = std::find_if(code.begin(), code.end(), [](const auto& i) { return i.op == Op::compare_op_; });
    ASSERT_NE(found, code.end());
    EXPECT_EQ(found->arg, expected++) << op;
  }
}

TEST_F(Bytecode, PositionsAreThoseOfPython) {
  PyCodeObject* code = compile("for i in range(n):\n  a[i] = (b[i] +\n     k)\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nreturn a");
  const auto ours = positions(code);
  for (size_t unit = 0; unit < ours.size(); ++unit) {
    int line, column, end_line, end_column;
    PyCode_Addr2Location(code, static_cast<int>(2 * unit), &line, &column, &end_line, &end_column);
    EXPECT_EQ(ours[unit].line, std::max(line, 0)) << unit;
    if (line > 0) {
      EXPECT_EQ(ours[unit].column, column) << unit;
      EXPECT_EQ(ours[unit].end_line, end_line) << unit;
      EXPECT_EQ(ours[unit].end_column, end_column) << unit;
    }
  }
}

TEST_F(Bytecode, HandlersCoverTheTry) {
  EXPECT_TRUE(handlers(compile("return a")).empty());
  EXPECT_FALSE(handlers(compile("try:\n  return a[0]\nexcept KeyError:\n  return b")).empty());
}

TEST_F(Bytecode, LongJumpsAreFolded) {
  std::string body = "for i in range(n):\n";
  for (int i = 0; i < 200; ++i) body += "  a[i] = b[i] + k * i\n";
  const auto code = decode(body + "return k");
  const auto loop = std::find_if(code.begin(), code.end(), [](const auto& i) { return i.op == Op::for_iter_; });
  ASSERT_NE(loop, code.end());
  ASSERT_LT(static_cast<size_t>(loop->arg), code.size());
  EXPECT_EQ(code[static_cast<size_t>(loop->arg)].op, Op::load_fast_);  // of `return k`
}

class Graph : public Bytecode {
 protected:
  Cfg graph(const std::string& body) {
    code_list_ = decode(body);
    return Cfg(code_list_, 0, static_cast<int>(code_list_.size()), true);
  }
  std::vector<Instruction> code_list_;
};

TEST_F(Graph, LoopsNest) {
  const Cfg g = graph("for i in range(n):\n  for j in range(i):\n    a[i] += 1\n  while k < i:\n    k += 1\nreturn k");
  ASSERT_EQ(g.fault(), "");
  ASSERT_EQ(g.loops().size(), 3u);
  EXPECT_EQ(g.loops()[0].parent, -1);
  EXPECT_EQ(g.loops()[1].parent, 0);
  EXPECT_EQ(g.loops()[2].parent, 0);
}

TEST_F(Graph, ForWithoutBreakHasOneExit) {
  const Cfg g = graph("for i in range(n):\n  if a[i]:\n    continue\n  b[i] = k\nreturn k");
  ASSERT_EQ(g.loops().size(), 1u);
  EXPECT_EQ(g.loops()[0].exits.size(), 1u);
}

TEST_F(Graph, PlainBreakLeavesWhereTheLoopEnds) {
  const Cfg g = graph("for i in range(n):\n  if a[i]:\n    break\n  b[i] = k\nk = 1\nb[0] = k\nb[1] = k\nreturn k");
  ASSERT_EQ(g.loops().size(), 1u);
  EXPECT_EQ(g.loops()[0].exits.size(), 1u);
}

TEST_F(Graph, ElseAndReturnAreExitsOfTheirOwn) {
  const Cfg g = graph(
      "for i in range(n):\n  if a[i]:\n    return i + k\n  if b[i]:\n    break\nelse:\n  k = 5\n"
      "a[0] = k\na[1] = k\nb[0] = a[2]\nreturn k");
  ASSERT_EQ(g.loops().size(), 1u);
  EXPECT_EQ(g.loops()[0].exits.size(), 3u);
}

TEST_F(Graph, RaiseStaysInTheLoop) {
  const Cfg g = graph("for i in range(n):\n  if a[i] < 0:\n    raise ValueError('negative')\n  b[i] = k\nreturn k");
  ASSERT_EQ(g.loops().size(), 1u);
  EXPECT_EQ(g.loops()[0].exits.size(), 1u);
}

TEST_F(Graph, EdgesFormADag) {
  const Cfg g = graph("while a and b or k:\n  k = 1 if a < b < n else 2\n  if k: continue\n  b = a\nreturn b");
  ASSERT_EQ(g.fault(), "");
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    if (!g.nodes()[n].reachable) continue;
    for (int s : g.nodes()[n].succs) EXPECT_LT(g.nodes()[n].order, g.nodes()[static_cast<size_t>(s)].order);
  }
}

TEST_F(Graph, JumpOutOfAStretchIsAFault) {
  code_list_ = decode(
      "for i in range(n):\n  for j in range(k):\n    a[j] = i\n  else:\n    if k: break\n  b[i] = 1\n  b[k] = "
      "2\nreturn k + n + b[0]");
  int inner = -1, loops = 0;
  for (size_t i = 0; i < code_list_.size(); ++i) {
    if (code_list_[i].op == Op::for_iter_ && ++loops == 2) inner = static_cast<int>(i);
  }
  ASSERT_GE(inner, 0);
  // Up to the store after the inner statement: its `break` leaves the outer loop.
  int last = inner;
  while (last < static_cast<int>(code_list_.size()) && !(code_list_[static_cast<size_t>(last)].op == Op::load_const_ &&
                                                         code_list_[static_cast<size_t>(last)].position.line == 7)) {
    ++last;
  }
  const Cfg g(code_list_, inner, last);
  EXPECT_NE(g.fault(), "");
}

}  // namespace
}  // namespace appy::bytecode
