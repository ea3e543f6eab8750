// Elements, stores, constructors, methods, tagged operands and joins against the running Python and NumPy.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "trace/conversion.h"
#include "trace/emit.h"
#include "trace_differential.h"

namespace appy::trace::testing {
namespace {

using runtime::PyScalarType;
using runtime::ScalarKind;
using Objects = std::span<PyObject* const>;

class Elements : public ::testing::TestWithParam<DType> {};

/// A Python float beyond 64 bits into an unsigned element is left to NumPy; so is a Python int read as u64.
bool huge_float(Objects o) { return PyFloat_CheckExact(o.back()) && std::fabs(PyFloat_AS_DOUBLE(o.back())) >= 0x1p63; }

TEST_P(Elements, StoreAsNumpy) {
  const DType t = GetParam();
  const std::string name = runtime::numpy_name(t);
  const Ref make =
      evaluate_python("lambda a: (lambda x: (x.__setitem__(0, a), x[0])[1])(np.zeros(1, np." + name + "))");
  Expectation expectation;
  if (!ir::is_signed(t)) expectation.may_decline = huge_float;
  auto operation = [t](Context& c, std::span<const Traced> args) { return np_scalar(stored(c, args[0], t)); };
  EXPECT_GT(compare_all("store " + name, operation, make.get(), 1, expectation), 200);
}

TEST_P(Elements, ConstructAsNumpy) {
  const DType t = GetParam();
  const std::string name = runtime::numpy_name(t);
  const Ref type = evaluate_python("np." + name);
  Expectation expectation;
  if (!ir::is_signed(t)) expectation.may_decline = huge_float;
  auto operation = [&](Context& c, std::span<const Traced> args) { return *call(c, object(type.get()), args, {}); };
  EXPECT_GT(compare_all("np." + name, operation, type.get(), 1, expectation), 200);
}

TEST_P(Elements, StoreResultOfWhere) {
  const DType t = GetParam();
  const std::string name = runtime::numpy_name(t);
  const Ref python = evaluate_python(
      "lambda a: (lambda x: (x.__setitem__(0, np.where(True, a, a)), x[0])[1])(np.zeros(1, np." + name + "))");
  const Ref where = evaluate_python("np.where");
  auto operation = [&](Context& c, std::span<const Traced> args) {
    const Traced arguments[] = {constant(c, Py_True), args[0], args[0]};
    return np_scalar(stored(c, *call(c, object(where.get()), arguments, {}), t));
  };
  EXPECT_GT(compare_all("store where " + name, operation, python.get(), 1, {}), 200);
}

TEST_P(Elements, AstypeOfScalars) {
  const DType t = GetParam();
  const std::string name = runtime::numpy_name(t);
  const Ref type = evaluate_python("np." + name);
  const Ref python = evaluate_python("lambda a: a.astype(np." + name + ")");
  auto operation = [&](Context& c, std::span<const Traced> args) {
    const Traced arguments[] = {object(type.get())};
    return *call(c, getattr(c, args[0], "astype"), arguments, {});
  };
  Expectation expectation;
  expectation.may_refuse = [](std::span<const Operand> o) { return o[0].type.kind != ScalarKind::np_scalar; };
  EXPECT_GT(compare_all("astype " + name, operation, python.get(), 1, expectation), 200);
}

INSTANTIATE_TEST_SUITE_P(All, Elements, ::testing::ValuesIn(numpy_dtypes()),
                         [](const auto& info) { return std::string(ir::name_of(info.param)); });

class Attributes : public ::testing::TestWithParam<const char*> {};

TEST_P(Attributes, OfScalars) {
  const std::string name = GetParam();
  const bool is_call = name.ends_with("()");
  const std::string attribute = is_call ? name.substr(0, name.size() - 2) : name;
  const Ref python = evaluate_python("lambda a: a." + name);
  auto operation = [&](Context& c, std::span<const Traced> args) {
    const Traced found = getattr(c, args[0], attribute);
    return is_call ? *call(c, found, {}, {}) : found;
  };
  Expectation expectation;
  // What the type lacks is an AttributeError, which the interpreter raises.
  expectation.may_refuse = [&](std::span<const Operand> o) {
    return !PyObject_HasAttrString(reinterpret_cast<PyObject*>(runtime::class_of(o[0].type)), attribute.c_str()) ||
           o[0].type.dtype == DType::bool_;
  };
  expectation.may_decline = [](Objects o) { return Py_TYPE(o[0]) == runtime::scalar_class(DType::u64_); };
  EXPECT_GT(compare_all(name, operation, python.get(), 1, expectation), 40);
}

INSTANTIATE_TEST_SUITE_P(All, Attributes,
                         ::testing::Values("real", "imag", "dtype", "itemsize", "ndim", "size", "shape", "numerator",
                                           "item()", "bit_count()", "bit_length()", "conjugate()", "is_integer()",
                                           "round()"));

/// Operands whose type depends on the path give what each of the types gives.
TEST(Tagged, OperatorsFollowTheTag) {
  const PyScalarType py_float{ScalarKind::py_float, DType::f64_}, np_float{ScalarKind::np_scalar, DType::f64_};
  const PyScalarType py_int{ScalarKind::py_int, DType::i64_}, np_int{ScalarKind::np_scalar, DType::i32_};
  struct Row {
    const char* symbol;
    BinaryOp op;
  };
  int compared = 0;
  for (const Row& row : {Row{"+", BinaryOp::add}, Row{"*", BinaryOp::multiply}, Row{"/", BinaryOp::true_divide},
                         Row{"//", BinaryOp::floor_divide}, Row{"%", BinaryOp::remainder}}) {
    const Ref python = evaluate_python(std::string("lambda a, b: a ") + row.symbol + " b");
    auto operation = [&](Context& c, std::span<const Traced> args) { return binary(c, row.op, args[0], args[1]); };
    for (const auto& types : {std::vector{py_float, np_float}, std::vector{py_int, np_int}}) {
      const std::vector<Operand> operands = {{types[0], {}, types}, {types[1], {}, {}}};
      const Program program(operation, operands, true);
      ASSERT_FALSE(program.aborted()) << program.abort();
      for (const PyScalarType& type : types) {
        for (const Ref& a : values_of(type)) {
          for (const Ref& b : values_of(types[1])) {
            PyObject* arguments[] = {a.get(), b.get()};
            const std::string wrong = difference(ask_python(python.get(), arguments), program.run(arguments), 0, false);
            ASSERT_EQ(wrong, "") << repr(a.get()) << row.symbol << repr(b.get());
            compared++;
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

TEST(Join, KeepsOneTypeAndTagsTwo) {
  ir::Graph graph;
  ir::Builder b(graph);
  const Traced py = make({ScalarKind::py_float, DType::f64_}, b.f64(1)), np = np_scalar(b.f64(2));
  const Traced integer = make({ScalarKind::py_int, DType::i64_}, b.i64(3));
  EXPECT_TRUE(join(py, py).types.empty());
  EXPECT_EQ(join(py, np).types, (std::vector{py.type, np.type}));
  EXPECT_EQ(join(py, np).type, np.type);
  EXPECT_EQ(join(integer, np).type, np.type);
  EXPECT_THROW(join(py, object(Py_None)), Abort);
}

TEST(Join, HoldsEveryAlternativeExactly) {
  ir::Graph graph;
  ir::Builder b(graph);
  const auto unknown = [&](DType t) { return ir::add_arg(*graph.body, ir::scalar(t)); };
  const auto type = [](ScalarKind kind, DType t) { return PyScalarType{kind, t}; };
  const PyScalarType bits = type(ScalarKind::np_scalar, DType::u64_);
  const Traced single = np_scalar(unknown(DType::f32_)), uint64 = np_scalar(unknown(DType::u64_));
  EXPECT_EQ(join(py_float(b.f64(0.5)), single).type, single.type);
  EXPECT_EQ(join(py_float(b.f64(0.1)), single).type, type(ScalarKind::py_float, DType::f64_));
  EXPECT_EQ(join(py_float(unknown(DType::f64_)), single).type, type(ScalarKind::py_float, DType::f64_));
  EXPECT_EQ(join(py_float(b.cast(single.value, DType::f64_)), single).type, single.type);
  EXPECT_EQ(join(py_int(b.i64(-1)), uint64).type, bits);
  EXPECT_EQ(join(single, uint64).type, bits);
  EXPECT_EQ(join(np_scalar(unknown(DType::i64_)), single).type, bits);
  EXPECT_EQ(join(py_int(unknown(DType::i64_)), np_scalar(unknown(DType::i16_))).type,
            type(ScalarKind::py_int, DType::i64_));
}

TEST(Table, EveryRowIsACallableOfTheRunningPython) {
  evaluate_python("scipy.special");
  for (const Function& row : all_functions()) {
    const std::string name = std::string(row.module) + "." + row.name;
    if (name == "math.fma") continue;  // new in 3.13
    PyObject* callable = callable_of(row);
    ASSERT_TRUE(callable) << name;
    EXPECT_EQ(find_function(callable), &row) << name;
  }
}

}  // namespace
}  // namespace appy::trace::testing
