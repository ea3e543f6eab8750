#include "trace_differential.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "ir/eval.h"
#include "ir/verify.h"
#include "runtime/numpy.h"
#include "runtime/raise.h"
#include "runtime/scalar.h"
#include "trace/emit.h"
#include "trace/tagged.h"

namespace appy::trace::testing {
namespace {

using ir::Word;
using runtime::ScalarKind;

class Python : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!Py_IsInitialized()) Py_InitializeEx(0);
    if (!runtime::import_numpy()) {
      PyErr_Print();
      FAIL() << "numpy cannot be imported; set PYTHONPATH to the site-packages of the virtual environment";
    }
  }
};
[[maybe_unused]] const auto* const python = ::testing::AddGlobalTestEnvironment(new Python);

class TestContext : public Context {
 public:
  TestContext(ir::Graph& graph, bool exact) : builder_(graph), exact_(exact) {}
  ir::Builder& builder() override { return builder_; }
  void check(ir::Check check, ir::Value* ok, std::span<ir::Value* const> info) override {
    builder_.check(std::move(check), ok, info, {});
  }
  int line() const override { return 1; }
  bool exact() const override { return exact_; }
  void mark_written(const Traced&) override {}
  ir::Value* extent(const Traced& array, int dim) override { return builder_.dim(array.value, dim); }
  std::optional<int64_t> sample(const ir::Value*) const override { return {}; }
  void poll() override { builder_.poll({}); }
  bool annotated() const override { return true; }

 private:
  ir::Builder builder_;
  bool exact_;
};

std::string take_error() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref owned[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  const Ref text = Ref::steal(PyObject_Str(value));
  std::string result = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  return result + ": " + (text ? PyUnicode_AsUTF8(text.get()) : "");
}

PyObject* names() {
  static PyObject* dict = nullptr;
  if (dict) return dict;
  dict = PyDict_New();
  PyDict_SetItemString(dict, "__builtins__", PyEval_GetBuiltins());
  constexpr const char* setup =
      "import math, warnings, operator, sys\n"
      "import numpy as np\n"
      "import scipy.special\n"
      "warnings.simplefilter('ignore')\n"
      "np.seterr(all='ignore')\n";
  const Ref done = Ref::steal(PyRun_String(setup, Py_file_input, dict, dict));
  if (!done) PyErr_Print();
  return dict;
}

bool same_float(double a, double b, int ulps, bool single) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return std::signbit(a) == std::signbit(b) || ulps > 0;
  if (ulps == 0 || std::isinf(a) || std::isinf(b)) return false;
  double x = a;
  for (int i = 0; i < ulps && x != b; i++) {
    x = single ? static_cast<double>(std::nextafterf(static_cast<float>(x), static_cast<float>(b)))
               : std::nextafter(x, b);
  }
  return x == b;
}

bool same_value(PyObject* a, PyObject* b, int ulps) {
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyTuple_CheckExact(a)) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
      if (!same_value(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), ulps)) return false;
    }
    return true;
  }
  const auto type = runtime::scalar_type_of(a);
  if (type && ir::is_real(type->dtype)) {
    const bool single = type->dtype == DType::f32_;
    return same_float(PyFloat_AsDouble(a), PyFloat_AsDouble(b), ulps, single);
  }
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

/// Does Python's result hold an int beyond 64 bits, or a complex number?
bool beyond(PyObject* value) {
  if (!value) return false;
  if (PyComplex_Check(value)) return true;
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
      if (beyond(PyTuple_GET_ITEM(value, i))) return true;
    }
  }
  Word word;
  return PyLong_CheckExact(value) && !runtime::read_word(value, {ScalarKind::py_int, DType::i64_}, &word);
}

std::string describe(const Answer& a) {
  if (!a.error.empty()) return a.error;
  if (a.gave_up) return "gave up";
  return std::string(Py_TYPE(a.value.get())->tp_name) + " " + repr(a.value.get());
}

}  // namespace

std::string repr(PyObject* o) {
  const Ref text = Ref::steal(PyObject_Repr(o));
  return text ? PyUnicode_AsUTF8(text.get()) : "?";
}

Ref evaluate_python(const std::string& expression) {
  Ref result = Ref::steal(PyRun_String(expression.c_str(), Py_eval_input, names(), names()));
  if (!result) PyErr_Print();
  EXPECT_TRUE(result) << expression;
  return result;
}

Program::Program(const Operation& operation, std::span<const Operand> operands, bool exact)
    : graph_(std::make_unique<ir::Graph>()), operands_(operands.begin(), operands.end()) {
  TestContext context(*graph_, exact);
  std::vector<Traced> arguments;
  std::vector<ir::Value*> results;
  try {
    for (const Operand& o : operands) {
      if (o.constant) {
        arguments.push_back(constant(context, o.constant.get()));
        continue;
      }
      Traced t = make(o.type, ir::add_arg(*graph_->body, ir::scalar(runtime::graph_type(o.type))));
      if (!o.types.empty()) {
        t.types = o.types;
        t.tag = ir::add_arg(*graph_->body, ir::scalar(tag_type(t.types.size())));
      }
      arguments.push_back(t);
    }
    result_ = flatten(context, operation(context, arguments), results);
    context.builder().yield(results);
    const std::string faults = ir::verify(*graph_);
    EXPECT_EQ(faults, "");
  } catch (const Abort& abort) {
    abort_ = abort.message();
    abort_id_ = abort.id;
  }
}

Program::~Program() = default;
Program::Program(Program&&) noexcept = default;

Program::Result Program::flatten(Context& context, const Traced& t, std::vector<ir::Value*>& values) {
  Result r{t.kind, t.type, t.types, -1, -1, t.object, {}};
  if (t.kind == Kind::scalar || t.kind == Kind::zero_d) {
    r.object = Ref();
    r.word = static_cast<int>(values.size());
    values.push_back(t.value);
    if (t.tag) {
      r.tag = static_cast<int>(values.size());
      values.push_back(t.tag);
    }
  }
  for (const Traced& item : t.items) r.items.push_back(flatten(context, item, values));
  return r;
}

Ref Program::rebuild(const Result& r, std::span<const Word> words) const {
  switch (r.kind) {
    case Kind::scalar:
    case Kind::zero_d: {
      const Word word = words[static_cast<size_t>(r.word)];
      if (r.tag < 0) return Ref::steal(runtime::make_scalar(r.type, word));
      const runtime::PyScalarType& type = r.types.at(words[static_cast<size_t>(r.tag)]);
      const DType own = runtime::graph_type(r.type), wanted = runtime::graph_type(type);
      const bool bits = own == DType::u64_ && ir::is_real(wanted);  // see join.cpp
      return Ref::steal(runtime::make_scalar(type, bits ? word : runtime::convert_word(own, wanted, word)));
    }
    case Kind::tuple:
    case Kind::range: {
      Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(r.items.size())));
      for (size_t i = 0; i < r.items.size(); i++) {
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), rebuild(r.items[i], words).release());
      }
      return r.kind == Kind::tuple ? tuple : Ref::steal(PyObject_CallObject((PyObject*)&PyRange_Type, tuple.get()));
    }
    default:
      return r.object;
  }
}

Answer Program::run(std::span<PyObject* const> arguments) const {
  std::vector<Word> words;
  for (size_t i = 0; i < operands_.size(); i++) {
    const Operand& o = operands_[i];
    if (o.constant) continue;
    const auto type = runtime::scalar_type_of(arguments[i]);
    Word word = 0;
    EXPECT_TRUE(type && runtime::read_word(arguments[i], *type, &word)) << repr(arguments[i]);
    words.push_back(runtime::convert_word(runtime::graph_type(*type), runtime::graph_type(o.type), word));
    if (o.types.empty()) continue;
    size_t tag = 0;
    while (o.types[tag] != *type) tag++;
    words.push_back(tag);
  }
  const ir::EvalResult result = ir::evaluate(*graph_, words);
  Answer answer;
  if (result.outcome == ir::EvalResult::Outcome::done) {
    answer.value = rebuild(result_, result.results);
    return answer;
  }
  ir::Op* failed = nullptr;
  int32_t ordinal = 0;
  ir::walk(*graph_->body, [&](ir::Op& op) {
    if (op.code == ir::Opcode::check_ && ordinal++ == result.check) failed = &op;
  });
  EXPECT_TRUE(failed);
  if (failed->check->kind == ir::CheckKind::overflow_ || failed->check->kind == ir::CheckKind::decline_) {
    answer.gave_up = true;
    return answer;
  }
  runtime::Failure failure;
  for (size_t i = 0; i < result.info.size(); i++) failure.info[i] = result.info[i];
  runtime::raise_failure(*failed, failure, {nullptr, nullptr, names(), PyEval_GetBuiltins()});
  answer.error = take_error();
  return answer;
}

Answer ask_python(PyObject* function, std::span<PyObject* const> arguments) {
  names();
  Answer answer;
  answer.value = Ref::steal(PyObject_Vectorcall(function, arguments.data(), arguments.size(), nullptr));
  if (!answer.value) answer.error = take_error();
  return answer;
}

std::string difference(const Answer& python, const Answer& compiled, int ulps, bool may_decline) {
  const bool complex = python.error.find("complex") != std::string::npos;
  if (compiled.gave_up)
    return may_decline || complex || beyond(python.value.get()) ? "" : "gave up, Python: " + describe(python);
  const bool same = python.value && compiled.value ? same_value(python.value.get(), compiled.value.get(), ulps)
                                                   : python.error == compiled.error && !python.error.empty();
  return same ? "" : "Python: " + describe(python) + ", compiled: " + describe(compiled);
}

std::vector<runtime::PyScalarType> all_types() {
  std::vector<runtime::PyScalarType> types = {
      {ScalarKind::py_int, DType::i64_}, {ScalarKind::py_float, DType::f64_}, {ScalarKind::py_bool, DType::bool_}};
  for (const DType t : numpy_dtypes()) types.push_back({ScalarKind::np_scalar, t});
  return types;
}

const std::vector<Ref>& values_of(const runtime::PyScalarType& type) {
  static std::map<std::pair<int, int>, std::vector<Ref>> cache;
  std::vector<Ref>& values = cache[{static_cast<int>(type.kind), static_cast<int>(type.dtype)}];
  if (!values.empty()) return values;
  auto add = [&](Word w) { values.push_back(Ref::steal(runtime::make_scalar(type, w))); };
  const DType t = runtime::graph_type(type);
  if (t == DType::bool_) {
    add(0), add(1);
  } else if (ir::is_real(t)) {
    for (double v : {0.0,
                     -0.0,
                     1.0,
                     -1.0,
                     0.5,
                     -0.5,
                     1.5,
                     2.5,
                     -2.5,
                     3.0,
                     -7.25,
                     64.0,
                     127.5,
                     300.7,
                     -129.0,
                     1e10,
                     0x1p31,
                     -0x1p31,
                     0x1p53,
                     0x1p63,
                     -0x1p63,
                     0x1p64,
                     1e30,
                     3e38,
                     -3e38,
                     1e300,
                     HUGE_VAL,
                     -HUGE_VAL,
                     static_cast<double>(NAN),
                     5e-324,
                     1e-40,
                     0.1,
                     0.9999999999999999,
                     700.0,
                     -750.0}) {
      add(runtime::convert_word(DType::f64_, t, std::bit_cast<Word>(v)));
    }
  } else {
    const ir::Range range = bounds_of(t);
    for (int64_t v : {int64_t{0},
                      int64_t{1},
                      int64_t{-1},
                      int64_t{2},
                      int64_t{3},
                      int64_t{-7},
                      int64_t{31},
                      int64_t{62},
                      int64_t{63},
                      int64_t{64},
                      int64_t{100},
                      int64_t{127},
                      int64_t{-128},
                      int64_t{-129},
                      int64_t{255},
                      int64_t{300},
                      int64_t{0x7fffffff},
                      int64_t{0x80000000},
                      -int64_t{0x80000000},
                      int64_t{0x100000001},
                      int64_t{1} << 53,
                      (int64_t{1} << 53) + 1,
                      -(int64_t{1} << 53) - 1,
                      (int64_t{1} << 60) + (int64_t{1} << 36) + 1,
                      int64_t{INT64_MAX} - 1,
                      int64_t{INT64_MAX},
                      int64_t{INT64_MIN},
                      int64_t{INT64_MIN} + 1,
                      range.lo,
                      range.hi,
                      range.lo + 1,
                      range.hi - 1}) {
      if (v >= range.lo && v <= range.hi) add(static_cast<Word>(v));
    }
    if (t == DType::u64_) add(UINT64_MAX), add(UINT64_MAX - 1), add(Word{1} << 63);
  }
  return values;
}

namespace {

/// A name for a refusal that Python's behaviour excuses: it raises TypeError, or gives a type that the graph lacks.
bool excused(const Answer& python) {
  if (!python.value) return python.error.find("TypeError") != std::string::npos;
  const bool tuple = PyTuple_CheckExact(python.value.get()) && PyTuple_GET_SIZE(python.value.get()) > 0;
  PyObject* v = tuple ? PyTuple_GET_ITEM(python.value.get(), 0) : python.value.get();
  return PyComplex_Check(v) || std::strcmp(Py_TYPE(v)->tp_name, "float") == 0;
}

struct Tally {
  const std::string& name;
  int compared = 0;
  int differences = 0;
  int shown = 0;
  int of_program = 0;
  /// Shows one difference of a program, and a dozen of an operation.
  void fail(const std::string& text) {
    differences++;
    if (of_program++ == 0 && shown++ < 12) ADD_FAILURE() << name << text;
  }
};

std::string call_text(std::span<PyObject* const> arguments) {
  std::string text = "(";
  for (PyObject* o : arguments) text += (text.size() > 1 ? ", " : "") + repr(o);
  return text + ") ";
}

void compare_one(Tally& tally, const Program& program, PyObject* function, std::span<PyObject* const> arguments,
                 const Expectation& expectation) {
  const Answer python = ask_python(function, arguments);
  Answer want = python;
  // A 0-d array stands for its element.
  if (want.value && PyArray_Check(want.value.get())) {
    want.value = Ref::steal(PyArray_ToScalar(PyArray_DATA(reinterpret_cast<PyArrayObject*>(want.value.get())),
                                             reinterpret_cast<PyArrayObject*>(want.value.get())));
  }
  const bool may_decline = expectation.may_decline && expectation.may_decline(arguments);
  const std::string different = difference(want, program.run(arguments), expectation.ulps, may_decline);
  tally.compared++;
  if (!different.empty()) tally.fail(call_text(arguments) + different);
}

void compare_types(Tally& tally, const Operation& operation, PyObject* function, std::span<const Operand> operands,
                   const Expectation& expectation) {
  const size_t arity = operands.size();
  const Program program(operation, operands, expectation.exact);
  std::vector<size_t> at(arity, 0);
  std::vector<PyObject*> arguments(arity);
  bool refused = program.aborted();
  tally.of_program = 0;
  for (;;) {
    for (size_t i = 0; i < arity; i++) {
      arguments[i] = operands[i].constant ? operands[i].constant.get() : values_of(operands[i].type)[at[i]].get();
    }
    if (program.aborted()) {
      if (refused && excused(ask_python(function, arguments))) refused = false;
    } else {
      compare_one(tally, program, function, arguments, expectation);
    }
    size_t i = 0;
    for (; i < arity; i++) {
      const size_t count = operands[i].constant ? 1 : values_of(operands[i].type).size();
      if (++at[i] < count) break;
      at[i] = 0;
    }
    if (i == arity) break;
  }
  if (refused && !(expectation.may_refuse && expectation.may_refuse(operands))) {
    tally.fail(call_text(arguments) + "refused: " + program.abort());
  }
}

}  // namespace

std::vector<DType> numpy_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i <= static_cast<int>(DType::f64_); i++) {
    if (const auto t = static_cast<DType>(i); t != DType::bf16_) all.push_back(t);
  }
  return all;
}

int compare_all(const std::string& name, const Operation& operation, PyObject* function, int arity,
                const Expectation& expectation) {
  Tally tally{name};
  const std::vector<runtime::PyScalarType> types = all_types();
  std::vector<size_t> at(static_cast<size_t>(arity), 0);
  for (;;) {
    std::vector<Operand> operands;
    for (size_t i : at) operands.push_back({types[i], {}, {}});
    compare_types(tally, operation, function, operands, expectation);
    for (size_t k = 0; k < operands.size() && arity <= 2; k++) {
      std::vector<Operand> with_constant = operands;
      const std::vector<Ref>& values = values_of(operands[k].type);
      for (size_t v = 0; v < values.size(); v += 3) {
        with_constant[k].constant = values[v];
        compare_types(tally, operation, function, with_constant, expectation);
      }
    }
    size_t i = 0;
    while (i < at.size() && ++at[i] == types.size()) at[i++] = 0;
    if (i == at.size()) break;
  }
  EXPECT_EQ(tally.differences, 0) << name;
  return tally.compared;
}

}  // namespace appy::trace::testing
