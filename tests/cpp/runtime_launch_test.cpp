// From a hand-made signature and kernel to what is left in the frame.
#include <bit>
#include <functional>

#include "ir/builder.h"
#include "runtime/fp_state.h"
#include "runtime/outputs.h"
#include "runtime/raise.h"
#include "runtime/scalar.h"
#include "runtime/specialization.h"
#include "runtime/type_key.h"
#include "runtime_python.h"

namespace appy::runtime {
namespace {

using namespace testing;
using ir::DType;

class FakeKernel final : public Kernel {
 public:
  explicit FakeKernel(std::function<Status(Invocation&)> f) : f_(std::move(f)) {}
  Status run(Invocation& call) const override { return f_(call); }

 private:
  std::function<Status(Invocation&)> f_;
};

/// A graph with these parameters and results, and a check before its end if asked.
struct Sketch {
  std::unique_ptr<ir::Graph> graph = std::make_unique<ir::Graph>();
  ir::Builder builder{*graph};
  explicit Sketch(const std::vector<ir::Type>& params) {
    for (const ir::Type& type : params) ir::add_arg(*graph->body, type);
  }
  void check(ir::CheckKind kind, std::string text, int ninfo = 0) {
    builder.set_loc(graph->add_loc({"helper.py", 7, 0, graph->add_loc({"main.py", 30, 0, 0})}));
    std::vector<ir::Value*> info(static_cast<size_t>(ninfo), builder.i64(0));
    builder.check({kind, ninfo, false, false, std::move(text)}, builder.boolean(false), info, {});
  }
  std::unique_ptr<ir::Graph> end(size_t results) {
    std::vector<ir::Value*> values(results, builder.i64(0));
    builder.yield(values);
    return std::move(graph);
  }
};

/// The pending exception as "Type: message | note, note", cleared.
std::string exception_text(Frame& frame) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!type) return "none";
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref t = Ref::steal(type), v = Ref::steal(value), tb = Ref::steal(traceback);
  PyDict_SetItemString(frame.scope().globals, "caught", value);
  Ref text = frame.eval("f\"{type(caught).__name__}: {caught} | {', '.join(getattr(caught, '__notes__', []))}\"");
  frame.run("del caught");
  return PyUnicode_AsUTF8(text.get());
}

Output to_local(int index, PyScalarType type, int result) {
  Output out;
  out.index = index;
  out.type = type;
  out.result = result;
  return out;
}

bool is(Frame& frame, size_t local, const std::string& source) {
  Ref expected = frame.eval(source);
  PyObject* value = frame.local(local);
  return value && Py_TYPE(value) == Py_TYPE(expected.get()) &&
         PyObject_RichCompareBool(value, expected.get(), Py_EQ) == 1;
}

TEST(scalars, survive_the_way_there_and_back) {
  Frame frame("", {});
  for (const char* source : {"-3",
                             "2**63 - 1",
                             "-2**63",
                             "0.1",
                             "-0.0",
                             "float('inf')",
                             "True",
                             "False",
                             "np.bool_(True)",
                             "np.int8(-128)",
                             "np.int16(-5)",
                             "np.int32(-7)",
                             "np.int64(-9)",
                             "np.uint8(255)",
                             "np.uint16(65535)",
                             "np.uint32(2**32 - 1)",
                             "np.uint64(2**64 - 1)",
                             "np.float16(0.1)",
                             "np.float32(0.1)",
                             "np.float64(-0.1)"}) {
    Ref value = frame.eval(source);
    auto type = scalar_type_of(value.get());
    ASSERT_TRUE(type) << source;
    ir::Word word;
    ASSERT_TRUE(read_word(value.get(), *type, &word));
    Ref back = Ref::steal(make_scalar(*type, word));
    EXPECT_EQ(Py_TYPE(back.get()), Py_TYPE(value.get())) << source;
    EXPECT_EQ(PyObject_RichCompareBool(back.get(), value.get(), Py_EQ), 1) << source;
  }
  EXPECT_FALSE(scalar_type_of(frame.eval("np.longlong(1)").get()));
  EXPECT_FALSE(scalar_type_of(frame.eval("'a'").get()));
}

TEST(scalars, convert_as_c_does) {
  EXPECT_EQ(convert_word(DType::f64_, DType::i64_, std::bit_cast<ir::Word>(-2.75)), static_cast<ir::Word>(-2));
  EXPECT_EQ(convert_word(DType::i64_, DType::f64_, static_cast<ir::Word>(-2)), std::bit_cast<ir::Word>(-2.0));
  EXPECT_EQ(convert_word(DType::f64_, DType::f32_, std::bit_cast<ir::Word>(0.5)), std::bit_cast<uint32_t>(0.5f));
  EXPECT_EQ(convert_word(DType::i64_, DType::i8_, 255), static_cast<ir::Word>(-1));
  EXPECT_EQ(convert_word(DType::i64_, DType::bool_, 256), 1u);
  EXPECT_EQ(convert_word(DType::bool_, DType::f64_, 1), std::bit_cast<ir::Word>(1.0));
}

TEST(launch, saxpy_with_a_hand_made_signature) {
  Frame frame("x = np.arange(5.0)\ny = np.ones(5)\na = 2.0\nn = 5\ni = None\nt = 0", {"x", "y", "a", "n", "i", "t"});
  ir::Type vector{DType::f64_, 1, ir::Layout::c};
  Sketch sketch({vector, vector, ir::scalar(DType::f64_), ir::scalar(DType::i64_)});
  Signature s;
  s.inputs = {array_input(0, DType::f64_, 1, 0, false, ir::Layout::c),
              array_input(1, DType::f64_, 1, 1, true, ir::Layout::c), scalar_input(2, py_float, 2),
              scalar_input(3, py_int, 3)};
  s.outputs = {to_local(4, py_int, 0), to_local(5, np(DType::f64_), 1)};
  auto kernel = std::make_unique<FakeKernel>([](Invocation& call) {
    auto* x = reinterpret_cast<double*>(call.args[0]);
    auto* y = reinterpret_cast<double*>(call.args[3]);
    auto a = std::bit_cast<double>(call.args[6]);
    auto n = static_cast<int64_t>(call.args[7]);
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
    call.results[0] = static_cast<ir::Word>(n - 1);
    call.results[1] = std::bit_cast<ir::Word>(y[n - 1]);
    return Status::done;
  });
  Scope scope = frame.scope();
  Specialization code(sketch.end(2), std::move(s), std::move(kernel), scope);
  Entry entry;
  ASSERT_TRUE(code.guards().match(scope, entry));
  PyObject* returned = nullptr;
  ASSERT_EQ(code.launch(scope, entry, 1, &returned), Launch::done);
  EXPECT_TRUE(is(frame, 4, "4"));
  EXPECT_TRUE(is(frame, 5, "np.float64(9.0)"));
  EXPECT_EQ(PyObject_IsTrue(frame.eval("y.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]").get()), 1);
}

TEST(outputs, boundness_tags_objects_and_places) {
  Frame frame("x = np.zeros(2)\na = 1\nb = 'old'\nc = 'old'\nd = 'old'", {"x", "a", "b", "c", "d"});
  Scope scope = frame.scope();
  Signature s;
  s.inputs = {array_input(0, DType::f64_, 1, 0, false)};
  Output keeps = to_local(1, py_int, 0), unbinds = to_local(2, py_int, 0), tagged = to_local(3, py_float, 2), object,
         global, none;
  keeps.bound = unbinds.bound = 1;
  unbinds.unset = true;
  tagged.tag = 3;
  tagged.types = {py_float, np(DType::f64_), py_int};
  object.index = 4;
  object.input = 0;
  global.to = Output::To::global;
  global.name = text("g");
  global.object = frame.eval("np.ones");
  s.outputs = {keeps, unbinds, tagged, object, global};
  ir::Word results[] = {5, 0, std::bit_cast<ir::Word>(3.0), 2};
  PyObject *objects[] = {frame.local(0)}, *returned = nullptr;
  ASSERT_TRUE(write_outputs(s, scope, results, objects, MadeArrays(s), 0, &returned));
  EXPECT_TRUE(is(frame, 1, "1"));
  EXPECT_EQ(frame.local(2), nullptr);
  EXPECT_TRUE(is(frame, 3, "3"));
  EXPECT_EQ(frame.local(4), frame.local(0));
  EXPECT_EQ(frame.get("g"), frame.eval("np.ones").get());
  results[1] = 1;
  results[3] = 1;
  ASSERT_TRUE(write_outputs(s, scope, results, objects, MadeArrays(s), 0, &returned));
  EXPECT_TRUE(is(frame, 1, "5"));
  EXPECT_TRUE(is(frame, 2, "5"));
  EXPECT_TRUE(is(frame, 3, "np.float64(3.0)"));
}

TEST(outputs, cells_and_return_values) {
  Frame frame("", {"c"});
  frame.bind(0, PyCell_New(nullptr));
  Scope scope = frame.scope();
  Signature s;
  Output cell = to_local(0, py_bool, 0), first = to_local(1, py_int, 1), second = to_local(2, py_float, 2);
  cell.to = Output::To::cell;
  first.to = second.to = Output::To::ret;
  s.outputs = {cell, first, second};
  s.exit = 3;
  ir::Word results[] = {1, 42, std::bit_cast<ir::Word>(1.5), 2};
  PyObject* returned = nullptr;
  ASSERT_TRUE(write_outputs(s, scope, results, nullptr, MadeArrays(s), 2, &returned));
  EXPECT_EQ(PyCell_GET(frame.local(0)), Py_True);
  Ref value = Ref::steal(returned);
  EXPECT_EQ(PyFloat_AsDouble(value.get()), 1.5);
  returned = nullptr;
  ASSERT_TRUE(write_outputs(s, scope, results, nullptr, MadeArrays(s), 0, &returned));
  EXPECT_EQ(returned, nullptr);
}

TEST(outputs, arrays_that_the_region_made) {
  Frame frame("", {"a", "b", "c", "d", "e", "f", "g"});
  frame.bind(0, frame.eval("np.ones(2)").release());
  for (int i = 1; i < 7; i++) frame.bind(i, frame.eval("'before'").release());
  Scope scope = frame.scope();
  const Signature numpy;
  MadeArrays arrays(numpy);
  const ir::Word shape[] = {2, 3}, impossible[] = {ir::Word{1} << 60, 8};
  void* data = arrays.make(4, {DType::f32_, 2, ir::Layout::c}, shape);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(arrays.make(5, {DType::f64_, 2, ir::Layout::c}, impossible), nullptr);
  EXPECT_EQ(PyErr_Occurred(), nullptr);
  EXPECT_EQ(arrays.at(5), nullptr);
  std::fill_n(static_cast<float*>(data), 6, 1.5f);
  Signature s;
  for (int i = 1; i < 7; i++) {
    Output out = to_local(i, py_int, -1);
    if (i < 3) out.alloc = i == 1 ? 4 : 5;
    if (i >= 3) out.which = i - 3;
    s.outputs.push_back(out);
  }
  ir::Word results[] = {static_cast<ir::Word>(Output::keep), static_cast<ir::Word>(Output::unbind), 0,
                        static_cast<ir::Word>(Output::first_slot + 4)};
  PyObject *objects[] = {frame.local(0)}, *returned = nullptr;
  ASSERT_TRUE(write_outputs(s, scope, results, objects, arrays, 0, &returned));
  PyObject* made = arrays.at(4);
  EXPECT_EQ(frame.local(1), made);
  EXPECT_EQ(frame.local(2), frame.local(3));  // left before the array was made, and told to leave it
  EXPECT_EQ(frame.local(4), nullptr);
  EXPECT_EQ(frame.local(5), frame.local(0));
  EXPECT_EQ(frame.local(6), made);
  EXPECT_EQ(Py_REFCNT(made), 3);
  PyDict_SetItemString(scope.globals, "made", made);
  EXPECT_EQ(frame.eval("made.dtype == np.float32 and made.tolist() == [[1.5] * 3] * 2 and made.flags.owndata").get(),
            Py_True);
}

TEST(launch, arrays_are_made_without_the_gil) {
  Frame frame("a = 'before'", {"a"});
  Sketch sketch({});
  ir::Op* loop = sketch.builder.while_loop({});  // takes long, for all the runtime knows
  sketch.builder.set_block(loop->blocks[0]);
  sketch.builder.terminator(ir::Opcode::break_, {});
  sketch.builder.set_block(sketch.graph->body);
  Signature s;
  Output out = to_local(0, py_int, -1);
  out.alloc = 3;
  s.outputs = {out};
  Specialization region(
      sketch.end(0), std::move(s), std::make_unique<FakeKernel>([](Invocation& call) {
        EXPECT_EQ(PyGILState_Check(), 0);
        const ir::Word first[] = {5}, second[] = {2};
        call.arrays->make(3, {DType::i64_, 1, ir::Layout::c}, first);
        auto* data = static_cast<int64_t*>(call.arrays->make(3, {DType::i64_, 1, ir::Layout::c}, second));
        EXPECT_EQ(PyGILState_Check(), 0);
        data[0] = 8;
        data[1] = 9;
        return Status::done;
      }),
      frame.scope());
  Entry entry;
  ASSERT_TRUE(region.guards().match(frame.scope(), entry));
  PyObject* returned = nullptr;
  EXPECT_EQ(region.launch(frame.scope(), entry, 1, &returned), Launch::done);
  PyDict_SetItemString(frame.scope().globals, "made", frame.local(0));
  EXPECT_EQ(frame.eval("made.tolist() == [8, 9]").get(), Py_True);
  EXPECT_EQ(Py_REFCNT(frame.local(0)), 2);
}

TEST(launch, no_memory_is_memory_error) {
  Frame frame("", {});
  Sketch sketch({});
  Specialization region(sketch.end(0), {}, std::make_unique<FakeKernel>([](Invocation& call) {
                          call.no_memory = true;
                          return Status::interrupted;
                        }),
                        frame.scope());
  Entry entry;
  ASSERT_TRUE(region.guards().match(frame.scope(), entry));
  PyObject* returned = nullptr;
  EXPECT_EQ(region.launch(frame.scope(), entry, 1, &returned), Launch::raised);
  EXPECT_EQ(exception_text(frame), "MemoryError:  | ");
}

struct FailureCase {
  ir::CheckKind kind;
  const char* text;
  std::array<int64_t, ir::kMaxInfo> info;
  const char* expected;
};

TEST(raise, messages_are_those_of_python_and_numpy) {
  Frame frame(
      "class Mine(Exception): pass\nu8, neg = np.zeros(1, 'u1'), -1\ndef bad(f):\n  try: f()\n  except Exception as e: "
      "return f'{type(e).__name__}: {e}'",
      {});
  constexpr const char* where = " | at helper.py, line 7, called from main.py, line 30";
  using ir::CheckKind;
  for (auto& [kind, text, info, expected] : std::initializer_list<FailureCase>{
           {CheckKind::bounds_, "", {7, 1, 5}, "bad(lambda: np.zeros((2, 5))[0, 7])"},
           {CheckKind::fits_, "uint8", {300, 0, 0}, "bad(lambda: u8.__setitem__(0, 300))"},
           {CheckKind::zero_division_, "division by zero", {}, "'ZeroDivisionError: division by zero'"},
           {CheckKind::domain_, "math domain error", {}, "'ValueError: math domain error'"},
           {CheckKind::range_error_, "math range error", {}, "'OverflowError: math range error'"},
           {CheckKind::value_, "negative shift count", {}, "bad(lambda: 1 << neg)"},
           {CheckKind::to_int_, "cannot convert float NaN to integer", {}, "bad(lambda: int(float('nan')))"},
           {CheckKind::assertion_, "no", {}, "'AssertionError: no'"},
           {CheckKind::assertion_, "", {}, "'AssertionError: '"},
           {CheckKind::unbound_,
            "v",
            {},
            "\"UnboundLocalError: cannot access local variable 'v' where it is not associated with a value\""},
           {CheckKind::raise_, "Mine: a: b", {}, "'Mine: a: b'"},
           {CheckKind::raise_, "ValueError", {}, "'ValueError: '"},
       }) {
    Sketch sketch({});
    sketch.check(kind, text, 0);
    auto graph = sketch.end(0);
    const ir::Op* op = nullptr;
    ir::walk(*graph->body, [&](ir::Op& o) { op = o.code == ir::Opcode::check_ ? &o : op; });
    Failure failure;
    failure.info = info;
    failure.iteration = -1;
    Ref message = frame.eval(expected);
    raise_failure(*op, failure, frame.scope());
    EXPECT_EQ(exception_text(frame), std::string(PyUnicode_AsUTF8(message.get())) + where);
  }
}

/// What happens when the check of a region fails: the region writes x, and reads it too if asked.
Launch failing(Frame& frame, ir::CheckKind kind, bool reads, bool has_state) {
  Sketch sketch({{DType::f64_, 1, ir::Layout::c}});
  ir::Builder& b = sketch.builder;
  ir::Value *x = sketch.graph->body->args[0], *zero = b.i64(0);
  ir::Value* value = reads ? b.load(x, {{zero}}) : b.f64(1.0);
  b.store(value, x, {{zero}});
  sketch.check(kind, "", 0);
  Signature s;
  s.inputs = {array_input(0, DType::f64_, 1, 0, true, ir::Layout::c)};
  s.outputs = {to_local(1, py_int, 0)};
  Scope scope = frame.scope();
  Specialization code(sketch.end(1), std::move(s), std::make_unique<FakeKernel>([=](Invocation& call) {
                        call.failure.check = 0;
                        call.failure.has_state = has_state;
                        call.failure.iteration = 3;
                        if (has_state) call.results[0] = 77;
                        return Status::failed;
                      }),
                      scope);
  Entry entry;
  EXPECT_TRUE(code.guards().match(scope, entry));
  PyObject* returned = nullptr;
  return code.launch(scope, entry, 1, &returned);
}

TEST(failures, a_sequential_one_leaves_the_scalars_of_the_failing_point) {
  Frame frame("x = np.zeros(3)\ni = 'before'", {"x", "i"});
  EXPECT_EQ(failing(frame, ir::CheckKind::zero_division_, true, true), Launch::raised);
  EXPECT_TRUE(exception_text(frame).starts_with("ZeroDivisionError"));
  EXPECT_TRUE(is(frame, 1, "77"));
}

TEST(failures, a_parallel_one_leaves_the_scalars_of_before) {
  Frame frame("x = np.zeros(3)\ni = 'before'", {"x", "i"});
  EXPECT_EQ(failing(frame, ir::CheckKind::zero_division_, true, false), Launch::raised);
  PyErr_Clear();
  EXPECT_TRUE(is(frame, 1, "'before'"));
}

TEST(failures, an_overflow_is_run_again_where_that_changes_nothing) {
  Frame frame("x = np.zeros(3)\ni = 'before'", {"x", "i"});
  EXPECT_EQ(failing(frame, ir::CheckKind::overflow_, false, true), Launch::declined);
  EXPECT_EQ(PyErr_Occurred(), nullptr);
  EXPECT_TRUE(is(frame, 1, "'before'"));
  EXPECT_EQ(failing(frame, ir::CheckKind::overflow_, true, true), Launch::raised);
  std::string text = exception_text(frame);
  EXPECT_TRUE(text.starts_with(
      "OverflowError: a Python int left 64 bits at helper.py, line 7, called from main.py, line 30, iteration 3"))
      << text;
  EXPECT_EQ(failing(frame, ir::CheckKind::zero_division_, false, true), Launch::raised);
  PyErr_Clear();
}

TEST(fp_state, follows_errstate_and_filters) {
  Frame frame("import warnings", {});
  EXPECT_TRUE(float_errors_are_silent());
  auto inside = [&](const char* enter) {
    frame.run(std::string("m = ") + enter + "\nm.__enter__()");
    bool silent = float_errors_are_silent();
    frame.run("m.__exit__(None, None, None)");
    EXPECT_TRUE(float_errors_are_silent()) << enter;
    return silent;
  };
  EXPECT_TRUE(inside("np.errstate(all='ignore')"));
  EXPECT_TRUE(inside("np.errstate(under='warn')"));
  EXPECT_FALSE(inside("np.errstate(invalid='raise')"));
  EXPECT_FALSE(inside("np.errstate(divide='print')"));
  EXPECT_FALSE(inside("np.errstate(over='call')"));
  EXPECT_TRUE(inside("warnings.catch_warnings()"));
  frame.run("c = warnings.catch_warnings()\nc.__enter__()\nwarnings.simplefilter('error', UserWarning)");
  EXPECT_TRUE(float_errors_are_silent());
  frame.run("warnings.simplefilter('error')");
  EXPECT_FALSE(float_errors_are_silent());
  frame.run("warnings.simplefilter('ignore')");
  EXPECT_TRUE(float_errors_are_silent());
  frame.run("warnings.simplefilter('error')");
  EXPECT_FALSE(float_errors_are_silent());
  frame.run("c.__exit__(None, None, None)");
  EXPECT_TRUE(float_errors_are_silent());
}

TEST(type_key, differs_where_types_do) {
  Frame frame("k = 1\na = 1\nb = np.zeros(3)", {"a", "b"});
  frame.run("def g(): pass");
  TypeKey key = type_key(frame.scope());
  frame.set(0, "2");
  EXPECT_EQ(type_key(frame.scope()), key);
  for (const char* other : {"2.0", "True", "2**64", "np.int64(1)", "None", "(1,)", "(1.0,)"}) {
    frame.set(0, other);
    TypeKey changed = type_key(frame.scope());
    EXPECT_NE(changed, key) << other;
    key = changed;
  }
  for (const char* other :
       {"np.zeros(3, 'f4')", "np.zeros((3, 1))", "np.zeros((3, 3))[:, 0]", "np.zeros(3, '>f8')", "[]"}) {
    frame.set(1, other);
    TypeKey changed = type_key(frame.scope());
    EXPECT_NE(changed, key) << other;
    key = changed;
  }
}

}  // namespace
}  // namespace appy::runtime
