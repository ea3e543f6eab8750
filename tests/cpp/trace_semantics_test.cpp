// Operators, functions and conversions against the running Python, table by table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/scalar.h"
#include "trace/emit.h"
#include "trace_differential.h"

namespace appy::trace::testing {
namespace {

using runtime::ScalarKind;
using Objects = std::span<PyObject* const>;

bool is_int(PyObject* o) { return PyLong_CheckExact(o) || PyBool_Check(o); }

/// Is it an int that a double does not hold for certain?
bool beyond_double(PyObject* o) {
  constexpr int64_t limit = int64_t{1} << 53;
  return PyLong_CheckExact(o) && (PyLong_AsLongLong(o) > limit || PyLong_AsLongLong(o) < -limit);
}

/// An integer of any type that i64 or, mixed with floats, f64 does not hold for certain.
bool beyond_signed(PyObject* o) {
  const auto type = runtime::scalar_type_of(o);
  if (!type || type->kind != ScalarKind::np_scalar || ir::size_of(type->dtype) != 8 || !ir::is_int(type->dtype))
    return false;
  ir::Word word = 0;
  runtime::read_word(o, *type, &word);
  const auto value = static_cast<int64_t>(word);
  constexpr int64_t limit = int64_t{1} << 53;
  return type->dtype == DType::u64_ ? word > ir::Word{limit} : value > limit || value < -limit;
}

struct BinaryRow {
  const char* symbol;
  BinaryOp op;
};

class BinaryOperators : public ::testing::TestWithParam<BinaryRow> {};

TEST_P(BinaryOperators, EqualPython) {
  const BinaryRow row = GetParam();
  // Python itself takes too long to find 3 ** (2 ** 62) and 1 << (2 ** 62).
  std::string guard =
      "10 ** 30 if type(a) in (int, bool) and type(b) is int and b > 6400 and a not in (-1, 0, 1) else ";
  if (row.op == BinaryOp::lshift) guard.replace(guard.find("(-1, 0, 1)"), 10, "(0,)");
  const bool huge = row.op == BinaryOp::power || row.op == BinaryOp::lshift;
  const Ref function = evaluate_python("lambda a, b: " + (huge ? guard : "") + "a " + row.symbol + " b");
  Expectation expectation;
  expectation.exact = true;
  expectation.may_decline = [&](Objects o) {
    // Quotients of ints that are no doubles, and int powers that are floats.
    if (row.op == BinaryOp::true_divide)
      return is_int(o[0]) && is_int(o[1]) && (beyond_double(o[0]) || beyond_double(o[1]));
    return row.op == BinaryOp::power && is_int(o[0]) && is_int(o[1]) && PyLong_AsLongLong(o[1]) < 0;
  };
  // Bit for bit, pow is libm's only where an operand is a scalar of the result's type.
  expectation.may_refuse = [&](std::span<const Operand> o) {
    const bool real = std::any_of(o.begin(), o.end(), [](const Operand& x) {
      return x.type.kind == ScalarKind::np_scalar && ir::is_real(x.type.dtype);
    });
    return row.op == BinaryOp::power && (!real || o[0].type.dtype != o[1].type.dtype);
  };
  auto operation = [&](Context& c, std::span<const Traced> args) { return binary(c, row.op, args[0], args[1]); };
  EXPECT_GT(compare_all(row.symbol, operation, function.get(), 2, expectation), 10000);
}

INSTANTIATE_TEST_SUITE_P(All, BinaryOperators,
                         ::testing::Values(BinaryRow{"+", BinaryOp::add}, BinaryRow{"-", BinaryOp::subtract},
                                           BinaryRow{"*", BinaryOp::multiply}, BinaryRow{"/", BinaryOp::true_divide},
                                           BinaryRow{"//", BinaryOp::floor_divide}, BinaryRow{"%", BinaryOp::remainder},
                                           BinaryRow{"&", BinaryOp::and_}, BinaryRow{"|", BinaryOp::or_},
                                           BinaryRow{"^", BinaryOp::xor_}, BinaryRow{">>", BinaryOp::rshift},
                                           BinaryRow{"<<", BinaryOp::lshift}, BinaryRow{"**", BinaryOp::power}));

class Comparisons : public ::testing::TestWithParam<std::pair<const char*, CompareOp>> {};

TEST_P(Comparisons, EqualPython) {
  const auto [symbol, op] = GetParam();
  const Ref function = evaluate_python(std::string("lambda a, b: a ") + symbol + " b");
  auto operation = [op = op](Context& c, std::span<const Traced> args) { return compare(c, op, args[0], args[1]); };
  EXPECT_GT(compare_all(symbol, operation, function.get(), 2, {}), 10000);
}

INSTANTIATE_TEST_SUITE_P(All, Comparisons,
                         ::testing::Values(std::pair{"<", CompareOp::lt}, std::pair{"<=", CompareOp::le},
                                           std::pair{"==", CompareOp::eq}, std::pair{"!=", CompareOp::ne},
                                           std::pair{">", CompareOp::gt}, std::pair{">=", CompareOp::ge}));

class UnaryOperators : public ::testing::TestWithParam<std::pair<const char*, UnaryOp>> {};

TEST_P(UnaryOperators, EqualPython) {
  const auto [symbol, op] = GetParam();
  const Ref function = evaluate_python(std::string("lambda a: ") + symbol + " a");
  auto operation = [op = op](Context& c, std::span<const Traced> args) { return unary(c, op, args[0]); };
  EXPECT_GT(compare_all(symbol, operation, function.get(), 1, {}), 200);
}

INSTANTIATE_TEST_SUITE_P(All, UnaryOperators,
                         ::testing::Values(std::pair{"-", UnaryOp::negative}, std::pair{"+", UnaryOp::positive},
                                           std::pair{"~", UnaryOp::invert}, std::pair{"not", UnaryOp::not_}));

/// Whatever a callable of the table does with one and two numbers, Python does.
class Functions : public ::testing::TestWithParam<const Function*> {};

bool correctly_rounded(Opcode code) {
  switch (code) {
    case Opcode::sqrt_:
    case Opcode::abs_:
    case Opcode::floor_:
    case Opcode::ceil_:
    case Opcode::trunc_:
    case Opcode::rint_:
    case Opcode::const_:
    case Opcode::copysign_:
    case Opcode::nextafter_:
      return true;
    case Opcode::pow_:
      return false;
    default:
      return ir::info(code).rule != ir::Rule::real;
  }
}

TEST_P(Functions, EqualPython) {
  const Function& row = *GetParam();
  evaluate_python("scipy.special");  // the rows of a module count once it is loaded
  PyObject* callable = callable_of(row);
  if (!callable) GTEST_SKIP() << row.module << "." << row.name << " does not exist here";
  const std::string name = std::string(row.module) + "." + row.name;
  int most = row.max_args < 0 ? 2 : std::min(row.max_args, 2);
  if (name == "builtins.round") most = 1;  // round(1, -2 ** 62) takes Python itself too long
  const int least = row.code == Opcode::pymax_ || row.code == Opcode::pymin_ ? 2 : std::max(row.min_args, 1);
  for (int arity = least; arity <= most; arity++) {
    Expectation expectation;
    expectation.ulps = correctly_rounded(row.code) ? 0 : 4;
    expectation.may_decline = [&](Objects o) {
      // The common type of an int and a float holds ints up to 2^53; a range goes up to 2^63.
      const bool extremum = name == "builtins.max" || name == "builtins.min";
      if (extremum)
        return std::any_of(o.begin(), o.end(), beyond_double) || std::any_of(o.begin(), o.end(), beyond_signed);
      const bool index = name == "builtins.range" || name == "math.isqrt" || name == "math.gcd";
      return index && std::any_of(o.begin(), o.end(), beyond_signed);
    };
    // C's quotient of an int by zero is nothing to build on.
    expectation.may_refuse = [&](std::span<const Operand>) { return name == "numpy.reciprocal"; };
    auto operation = [callable](Context& c, std::span<const Traced> args) {
      return *call(c, object(callable), args, {});
    };
    EXPECT_GT(compare_all(name, operation, callable, arity, expectation), 20);
  }
}

std::vector<const Function*> rows_of(const char* module) {
  std::vector<const Function*> rows;
  for (const Function& row : all_functions()) {
    const std::string name = std::string(row.module) + "." + row.name;
    // These have tests of their own.
    bool other = row.min_args > 2;
    for (const char* own : {"builtins.pow", "builtins.isinstance", "builtins.len", "builtins.sum"})
      other |= name == own;
    if (row.module == std::string(module) && !other) rows.push_back(&row);
  }
  return rows;
}

std::string row_name(const ::testing::TestParamInfo<const Function*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Builtins, Functions, ::testing::ValuesIn(rows_of("builtins")), row_name);
INSTANTIATE_TEST_SUITE_P(Math, Functions, ::testing::ValuesIn(rows_of("math")), row_name);
INSTANTIATE_TEST_SUITE_P(Numpy, Functions, ::testing::ValuesIn(rows_of("numpy")), row_name);
INSTANTIATE_TEST_SUITE_P(Special, Functions, ::testing::ValuesIn(rows_of("scipy.special")), row_name);

}  // namespace
}  // namespace appy::trace::testing
