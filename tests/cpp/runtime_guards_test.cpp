#include <bit>

#include "runtime/guards.h"
#include "runtime_python.h"

namespace appy::runtime {
namespace {

using namespace testing;
using ir::DType;

const auto* const python = ::testing::AddGlobalTestEnvironment(new Python);

/// A graph with these parameters and an empty body.
std::unique_ptr<ir::Graph> graph_of(const std::vector<ir::Type>& params) {
  auto graph = std::make_unique<ir::Graph>();
  for (const ir::Type& type : params) ir::add_arg(*graph->body, type);
  return graph;
}

ir::Type vector_of(DType t) { return {t, 1, ir::Layout::strided}; }

TEST(guards, flattens_arguments_in_the_order_of_the_parameters) {
  Frame frame("x = np.arange(12.0).reshape(3, 4)[:, ::2]\nn = 7\na = 2.5", {"x", "n", "a"});
  auto graph = graph_of({ir::scalar(DType::f64_), {DType::f64_, 2, ir::Layout::strided}, ir::scalar(DType::i64_)});
  Signature s;
  s.inputs = {array_input(0, DType::f64_, 2, 1, false), scalar_input(1, py_int, 2), scalar_input(2, py_float, 0)};
  Guards guards(s, *graph, frame.scope());
  Entry entry;
  ASSERT_TRUE(guards.match(frame.scope(), entry));
  ASSERT_EQ(guards.word_count(), 7u);
  auto* x = reinterpret_cast<PyArrayObject*>(frame.local(0));
  EXPECT_EQ(std::bit_cast<double>(entry.args[0]), 2.5);
  EXPECT_EQ(entry.args[1], reinterpret_cast<uintptr_t>(PyArray_BYTES(x)));
  EXPECT_EQ(entry.args[2], 3u);
  EXPECT_EQ(entry.args[3], 2u);
  EXPECT_EQ(entry.args[4], 32u);
  EXPECT_EQ(entry.args[5], 16u);
  EXPECT_EQ(entry.args[6], 7u);
  EXPECT_EQ(entry.objects[0], frame.local(0));
}

TEST(guards, scalars_have_exact_types) {
  struct Case {
    PyScalarType type;
    const char *good, *bad;
  };
  for (auto [type, good, bad] : std::initializer_list<Case>{
           {py_int, "3", "True"},
           {py_int, "-2**63", "2**63"},
           {py_int, "0", "np.int64(0)"},
           {py_float, "1.0", "np.float64(1.0)"},
           {py_bool, "True", "1"},
           {py_bool, "False", "np.bool_(False)"},
           {np(DType::f32_), "np.float32(1)", "np.float64(1)"},
           {np(DType::i64_), "np.int64(1)", "np.longlong(1)"},
           {np(DType::u8_), "np.uint8(1)", "np.int8(1)"},
           {np(DType::bool_), "np.bool_(True)", "True"},
       }) {
    Frame frame(std::string("a = ") + good, {"a"});
    auto graph = graph_of({ir::scalar(type.dtype)});
    Signature s;
    s.inputs = {scalar_input(0, type, 0)};
    Guards guards(s, *graph, frame.scope());
    Entry entry;
    EXPECT_TRUE(guards.match(frame.scope(), entry)) << good;
    frame.set(0, bad);
    EXPECT_FALSE(guards.match(frame.scope(), entry)) << bad;
    EXPECT_EQ(guards.mismatch(frame.scope()), "s0");
  }
}

TEST(guards, integers_keep_to_their_range) {
  Frame frame("n = 10", {"n"});
  auto graph = graph_of({ir::scalar(DType::i64_)});
  Signature s;
  s.inputs = {scalar_input(0, py_int, 0)};
  s.inputs[0].range = {-5, 10};
  Guards guards(s, *graph, frame.scope());
  Entry entry;
  EXPECT_TRUE(guards.match(frame.scope(), entry));
  frame.set(0, "11");
  EXPECT_FALSE(guards.match(frame.scope(), entry));
  frame.set(0, "-6");
  EXPECT_FALSE(guards.match(frame.scope(), entry));
  frame.set(0, "-5");
  EXPECT_TRUE(guards.match(frame.scope(), entry));
  EXPECT_EQ(static_cast<int64_t>(entry.args[0]), -5);
}

TEST(guards, arrays) {
  Frame frame("x = np.zeros((4, 4))", {"x"});
  struct Case {
    const char* source;
    bool strided, inner, c, f, written;
  };
  for (auto [source, strided, inner, c, f, written] : std::initializer_list<Case>{
           {"np.zeros((4, 4))", true, true, true, false, true},
           {"np.zeros((4, 4), order='F')", true, false, false, true, true},
           {"np.zeros((4, 8))[:, :4]", true, true, false, false, true},
           {"np.zeros((4, 8))[:, ::2]", true, false, false, false, true},
           {"np.zeros((0, 4))[::2]", true, true, true, true, true},
           {"np.zeros((4, 8))[:, ::8]", true, true, false, false, true},
           {"np.broadcast_to(0.0, (4, 4))", true, false, false, false, false},
           {"np.zeros((4, 4), '>f8')", false, false, false, false, false},
           {"np.zeros((4, 4), 'f4')", false, false, false, false, false},
           {"np.zeros(16)", false, false, false, false, false},
           {"np.zeros((4, 4)).view(np.matrix)", false, false, false, false, false},
           {"np.frombuffer(bytes(129), 'u1')[1:].view('f8').reshape(4, 4)", false, false, false, false, false},
           {"3.0", false, false, false, false, false},
       }) {
    frame.set(0, source);
    auto passes = [&](ir::Layout layout, bool is_written) {
      auto graph = graph_of({{DType::f64_, 2, layout}});
      Signature s;
      s.inputs = {array_input(0, DType::f64_, 2, 0, is_written, layout)};
      Entry entry;
      return Guards(s, *graph, frame.scope()).match(frame.scope(), entry);
    };
    EXPECT_EQ(passes(ir::Layout::strided, false), strided) << source;
    EXPECT_EQ(passes(ir::Layout::inner, false), inner) << source;
    EXPECT_EQ(passes(ir::Layout::c, false), c) << source;
    EXPECT_EQ(passes(ir::Layout::f, false), f) << source;
    EXPECT_EQ(passes(ir::Layout::strided, true), written) << source;
  }
}

TEST(guards, the_version_for_overlapping_arrays_applies_only_to_them) {
  Frame frame("x = np.zeros(10)\ny = np.zeros(10)", {"x", "y"});
  auto graph = graph_of({vector_of(DType::f64_), vector_of(DType::f64_)});
  Signature s;
  s.inputs = {array_input(0, DType::f64_, 1, 0, true), array_input(1, DType::f64_, 1, 1, false)};
  Guards disjoint(s, *graph, frame.scope());
  graph->may_alias = true;
  Guards overlapping(s, *graph, frame.scope());
  auto check = [&](const char* x, const char* y, bool overlap) {
    frame.run("b = np.zeros(40)");
    frame.set(0, x);
    frame.set(1, y);
    Entry entry;
    EXPECT_EQ(disjoint.match(frame.scope(), entry), !overlap) << x << " " << y;
    EXPECT_EQ(overlapping.match(frame.scope(), entry), overlap) << x << " " << y;
  };
  check("b[:10]", "b[10:20]", false);
  check("b[:11]", "b[10:20]", true);
  check("b[::2]", "b[1::2]", false);
  check("b[::2]", "b[2::3]", true);
  check("b[::-1]", "b", true);
  check("b[:0]", "b", false);
  check("np.lib.stride_tricks.as_strided(b, (4,), (0,))", "np.zeros(3)", true);
}

TEST(guards, arrays_that_are_only_read_may_overlap) {
  Frame frame("x = np.zeros(10)\ny = x[1:]", {"x", "y"});
  auto graph = graph_of({vector_of(DType::f64_), vector_of(DType::f64_)});
  Signature s;
  s.inputs = {array_input(0, DType::f64_, 1, 0, false), array_input(1, DType::f64_, 1, 1, false)};
  Guards guards(s, *graph, frame.scope());
  Entry entry;
  EXPECT_TRUE(guards.match(frame.scope(), entry));
}

TEST(guards, one_view_under_two_names) {
  Frame frame("x = np.zeros(10)\ny = x[:]", {"x", "y"});
  auto graph = graph_of({vector_of(DType::f64_)});
  Signature s;
  s.inputs = {array_input(0, DType::f64_, 1, 0, true), array_input(1, DType::f64_, 1, 0, false)};
  s.inputs[1].same_view_as = 0;
  Guards guards(s, *graph, frame.scope());
  Entry entry;
  EXPECT_TRUE(guards.match(frame.scope(), entry));
  frame.set(1, "x[:9]");
  EXPECT_FALSE(guards.match(frame.scope(), entry));
  frame.set(1, "x[::-1]");
  EXPECT_FALSE(guards.match(frame.scope(), entry));
}

Input named(Input::From from, const char* key, Input::Guard guard, Ref object = {}) {
  Input in;
  in.from = from;
  in.key = text(key);
  in.guard = guard;
  in.object = std::move(object);
  in.name = key;
  return in;
}

TEST(guards, globals_and_builtins) {
  Frame frame("k = 3", {});
  auto graph = graph_of({});
  Signature s;
  s.inputs = {named(Input::From::global, "k", Input::Guard::constant, frame.eval("3")),
              named(Input::From::global, "abs", Input::Guard::is, frame.eval("abs")),
              named(Input::From::builtin, "max", Input::Guard::is, frame.eval("max")),
              named(Input::From::global, "nothing", Input::Guard::absent)};
  Guards guards(s, *graph, frame.scope());
  Entry entry;
  EXPECT_TRUE(guards.match(frame.scope(), entry));
  auto fails_after = [&](const char* change, const char* undo, const char* name) {
    frame.run(change);
    EXPECT_FALSE(guards.match(frame.scope(), entry)) << change;
    EXPECT_EQ(guards.mismatch(frame.scope()), name);
    frame.run(undo);
    EXPECT_TRUE(guards.match(frame.scope(), entry)) << undo;
  };
  fails_after("k = 4", "k = 3", "k");
  fails_after("k = 3.0", "k = 3", "k");
  fails_after("abs = abs", "del abs", "abs");
  fails_after("max = max", "del max", "max");
  fails_after("nothing = 1", "del nothing", "nothing");
}

TEST(guards, functions_are_compared_by_what_they_do) {
  Frame frame("def make(k):\n  def f(a, b=2): return a + k\n  return f\ng = make(1)", {"g"});
  auto graph = graph_of({});
  Signature s;
  Input function;
  function.guard = Input::Guard::function;
  function.object = frame.eval("g");
  Input cell = named(Input::From::closure, "k", Input::Guard::constant, frame.eval("1"));
  s.inputs = {function, cell};
  Guards guards(s, *graph, frame.scope());
  Entry entry;
  EXPECT_TRUE(guards.match(frame.scope(), entry));
  frame.run("h = make(1)\nh.__defaults__ = g.__defaults__");
  frame.set(0, "h");
  EXPECT_TRUE(guards.match(frame.scope(), entry)) << "another closure of the same code";
  frame.set(0, "make(2)");
  EXPECT_FALSE(guards.match(frame.scope(), entry));
  frame.set(0, "g");
  frame.run("g.__defaults__ = (3,)");
  EXPECT_FALSE(guards.match(frame.scope(), entry));
}

TEST(guards, tuples_modules_and_attributes) {
  Frame frame(
      "import math\n"
      "class A:\n"
      "  __slots__ = ('n',)\n"
      "class B:\n"
      "  size = 4\n"
      "  @property\n"
      "  def m(self): raise SystemExit\n"
      "a, b = A(), B()\na.n = 5\nb.n = 6\nt = (1, 2.0)",
      {"t", "a", "b"});
  auto graph =
      graph_of({ir::scalar(DType::i64_), ir::scalar(DType::f64_), ir::scalar(DType::i64_), ir::scalar(DType::i64_)});
  auto object = [&](int local, const char* source) {
    Input in;
    in.index = local;
    in.guard = Input::Guard::is;
    in.object = frame.eval(source);
    return in;
  };
  auto attribute = [&](int parent, const char* key, int param) {
    Input in = scalar_input(parent, py_int, param);
    in.from = Input::From::attr;
    in.key = text(key);
    return in;
  };
  Signature s;
  Input tuple;
  tuple.guard = Input::Guard::tuple;
  tuple.size = 2;
  Input first = scalar_input(0, py_int, 0), second = scalar_input(0, py_float, 1);
  first.from = second.from = Input::From::item;
  second.position = 1;
  Input pi = named(Input::From::attr, "pi", Input::Guard::constant, frame.eval("math.pi"));
  pi.index = 7;
  s.inputs = {tuple,
              first,
              second,
              object(1, "a"),
              attribute(3, "n", 2),
              object(2, "b"),
              attribute(5, "n", 3),
              named(Input::From::global, "math", Input::Guard::is, frame.eval("math")),
              pi};
  Guards guards(s, *graph, frame.scope());
  Entry entry;
  ASSERT_TRUE(guards.match(frame.scope(), entry)) << guards.mismatch(frame.scope());
  EXPECT_EQ(entry.args[0], 1u);
  EXPECT_EQ(entry.args[2], 5u);
  EXPECT_EQ(entry.args[3], 6u);
  frame.run("a.n = 8");
  ASSERT_TRUE(guards.match(frame.scope(), entry));
  EXPECT_EQ(entry.args[2], 8u);
  frame.run("b.n = 'six'");
  EXPECT_FALSE(guards.match(frame.scope(), entry));
  frame.run("del b.n");
  EXPECT_FALSE(guards.match(frame.scope(), entry));
  EXPECT_FALSE(PyErr_Occurred());
  frame.run("b.n = 6");
  EXPECT_TRUE(guards.match(frame.scope(), entry));
  frame.set(0, "(1, 2.0, 3)");
  EXPECT_FALSE(guards.match(frame.scope(), entry));

  PyObject* value;
  EXPECT_FALSE(plain_attribute(frame.get("b"), text("m").get(), &value)) << "a property is not run";
  EXPECT_TRUE(plain_attribute(frame.get("B"), text("size").get(), &value));
  Py_XDECREF(value);
}

TEST(guards, objects_stay_alive_while_they_are_held) {
  Frame frame("x = np.zeros(3)", {"x"});
  frame.run("del x");
  auto graph = graph_of({vector_of(DType::f64_)});
  Signature s;
  s.inputs = {array_input(0, DType::f64_, 1, 0, false)};
  Guards guards(s, *graph, frame.scope());
  Entry entry;
  ASSERT_TRUE(guards.match(frame.scope(), entry));
  entry.hold(1);
  PyObject* x = frame.local(0);
  Py_ssize_t count = Py_REFCNT(x);
  frame.bind(0, Py_NewRef(Py_None));
  EXPECT_EQ(Py_REFCNT(x), count - 1);
  entry.release();
}

}  // namespace
}  // namespace appy::runtime
