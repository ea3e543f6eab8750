// Calls and subscripts that the tables of scalars do not reach: tuples, ranges, arrays, three arguments.
#include <gtest/gtest.h>

#include "ir/eval.h"
#include "ir/text.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "trace/emit.h"
#include "trace/tensor.h"
#include "trace_differential.h"

namespace appy::trace::testing {
namespace {

using runtime::PyScalarType;
using runtime::ScalarKind;

constexpr PyScalarType python_int{ScalarKind::py_int, DType::i64_};

/// callable(f(args)) for Python ints of these values, against Python.
void expect_equal(const std::string& python, const Operation& operation, int arity, const std::vector<long>& values) {
  const Ref function = evaluate_python(python);
  const std::vector<Operand> operands(static_cast<size_t>(arity), Operand{python_int, {}, {}});
  const Program program(operation, operands, false);
  ASSERT_FALSE(program.aborted()) << python << ": " << program.abort();
  std::vector<size_t> at(static_cast<size_t>(arity), 0);
  for (;;) {
    std::vector<Ref> owned;
    std::vector<PyObject*> arguments;
    for (size_t i : at) {
      owned.push_back(Ref::steal(PyLong_FromLong(values[i])));
      arguments.push_back(owned.back().get());
    }
    const std::string wrong = difference(ask_python(function.get(), arguments), program.run(arguments), 0, false);
    std::string text = python;
    for (size_t i : at) text += " " + std::to_string(values[i]);
    EXPECT_EQ(wrong, "") << text;
    size_t i = 0;
    while (i < at.size() && ++at[i] == values.size()) at[i++] = 0;
    if (i == at.size()) return;
  }
}

Traced call_named(Context& c, const char* name, std::span<const Traced> args) {
  return *call(c, object(evaluate_python(name).get()), args, {});
}

const std::vector<long> few = {0, 1, -1, 2, 5, -7, 100};

TEST(Calls, LengthOfRange) {
  for (const char* step : {"1", "-1", "3", "-4"}) {
    const Ref by = evaluate_python(step);
    auto operation = [&](Context& c, std::span<const Traced> args) {
      const Traced range[] = {args[0], args[1], constant(c, by.get())};
      const Traced length[] = {call_named(c, "range", range)};
      return call_named(c, "len", length);
    };
    expect_equal(std::string("lambda a, b: len(range(a, b, ") + step + "))", operation, 2, few);
  }
}

TEST(Calls, RangeWithRunTimeStep) {
  auto operation = [](Context& c, std::span<const Traced> args) { return call_named(c, "range", args); };
  expect_equal("range", operation, 3, few);
}

TEST(Calls, SumOfTuple) {
  auto operation = [](Context& c, std::span<const Traced> args) {
    const Traced arguments[] = {tuple_of({args[0], args[1]}), args[2]};
    return call_named(c, "sum", arguments);
  };
  expect_equal("lambda a, b, c: sum((a, b), c)", operation, 3, few);
}

TEST(Calls, ExtremaOfTuplesAndMoreArguments) {
  for (const char* name : {"min", "max"}) {
    auto tuple = [&](Context& c, std::span<const Traced> args) {
      const Traced arguments[] = {tuple_of({args.begin(), args.end()})};
      return call_named(c, name, arguments);
    };
    expect_equal(std::string("lambda a, b, c: ") + name + "((a, b, c))", tuple, 3, few);
    auto direct = [&](Context& c, std::span<const Traced> args) { return call_named(c, name, args); };
    expect_equal(name, direct, 3, few);
  }
}

TEST(Calls, ClipWhereAndContains) {
  auto clip = [](Context& c, std::span<const Traced> args) { return call_named(c, "np.clip", args); };
  expect_equal("np.clip", clip, 3, few);
  auto where = [](Context& c, std::span<const Traced> args) {
    return binary(c, BinaryOp::add, call_named(c, "np.where", args), args[0]);
  };
  expect_equal("lambda a, b, c: np.where(a, b, c) + a", where, 3, few);
  auto contains_tuple = [](Context& c, std::span<const Traced> args) {
    return contains(c, args[0], tuple_of({args[1], args[2]}), true);
  };
  expect_equal("lambda a, b, c: a not in (b, c)", contains_tuple, 3, few);
  auto contains_range = [](Context& c, std::span<const Traced> args) {
    return contains(c, args[0], call_named(c, "range", args.subspan(1)), false);
  };
  expect_equal("lambda a, b, c: a in range(b, c)", contains_range, 3, few);
}

TEST(Calls, RoundToDigitsKeepsInts) {
  auto operation = [](Context& c, std::span<const Traced> args) {
    const Traced arguments[] = {args[0], constant(c, evaluate_python("2").get())};
    return call_named(c, "round", arguments);
  };
  expect_equal("lambda a: round(a, 2)", operation, 1, few);
}

TEST(Calls, InstancesAreKnownByType) {
  for (const char* type : {"int", "float", "np.integer", "np.float64"}) {
    for (const PyScalarType& scalar : all_types()) {
      const Ref python = evaluate_python(std::string("lambda a: isinstance(a, ") + type + ")");
      auto operation = [&](Context& c, std::span<const Traced> args) {
        const Traced arguments[] = {args[0], constant(c, evaluate_python(type).get())};
        return call_named(c, "isinstance", arguments);
      };
      const std::vector<Operand> operands = {{scalar, {}, {}}};
      const Program program(operation, operands, false);
      PyObject* arguments[] = {values_of(scalar)[0].get()};
      EXPECT_EQ(difference(ask_python(python.get(), arguments), program.run(arguments), 0, false), "") << type;
    }
  }
}

TEST(Calls, AnythingElseIsLeftToTheInterpreter) {
  ir::Graph graph;
  auto refused = [](const char* text, std::vector<PyScalarType> types, bool exact = false) {
    std::vector<Operand> operands;
    for (const PyScalarType& t : types) operands.push_back({t, {}, {}});
    auto operation = [&](Context& c, std::span<const Traced> args) { return call_named(c, text, args); };
    const Program program(operation, operands, exact);
    return program.aborted() ? program.abort() : "";
  };
  const PyScalarType f64{ScalarKind::np_scalar, DType::f64_}, i8{ScalarKind::np_scalar, DType::i8_};
  EXPECT_EQ(refused("print", {f64}), "the call of print cannot be traced");
  EXPECT_EQ(refused("np.sqrt", {i8}), "");
  EXPECT_EQ(refused("np.exp", {f64}, true), "numpy.exp cannot be computed bit for bit");
  EXPECT_EQ(refused("np.sqrt", {f64}, true), "");
  EXPECT_EQ(refused("math.exp", {f64}, true), "");
}

TEST(Calls, PlainPythonFunctionsAreTheRecorders) {
  const Ref function = evaluate_python("lambda x: x");
  auto operation = [&](Context& c, std::span<const Traced> args) {
    EXPECT_FALSE(call(c, object(function.get()), args, {}).has_value());
    return args[0];
  };
  const std::vector<Operand> operands = {{python_int, {}, {}}};
  EXPECT_FALSE(Program(operation, operands, false).aborted());
}

/// A region that stores array[i, j] = value, on real memory.
class Subscripts : public ::testing::Test {
 public:
  class Recorder : public Context {
   public:
    explicit Recorder(ir::Graph& graph) : builder_(graph) {}
    ir::Builder& builder() override { return builder_; }
    void check(ir::Check check, ir::Value* ok, std::span<ir::Value* const> info) override {
      builder_.check(std::move(check), ok, info, {});
    }
    int line() const override { return 1; }
    bool exact() const override { return false; }
    void mark_written(const Traced&) override { written = true; }
    ir::Value* extent(const Traced& array, int dim) override { return builder_.dim(array.value, dim); }
    std::optional<int64_t> sample(const ir::Value*) const override { return {}; }
    void poll() override { builder_.poll({}); }
    bool annotated() const override { return true; }
    bool written = false;

   private:
    ir::Builder builder_;
  };

  Subscripts() : recorder_(graph_) {
    array_.kind = Kind::array;
    array_.value = ir::add_arg(*graph_.body, ir::Type{DType::f64_, 2, ir::Layout::strided});
    for (int i = 0; i < 2; i++) index_.push_back(py(ir::add_arg(*graph_.body, ir::scalar(DType::i64_))));
  }
  static Traced py(ir::Value* v) { return make(python_int, v); }

  ir::EvalResult run(int64_t i, int64_t j) {
    const ir::Word args[] = {reinterpret_cast<ir::Word>(data_), 2, 3, 24, 8, static_cast<ir::Word>(i),
                             static_cast<ir::Word>(j)};
    return ir::evaluate(graph_, args);
  }

  ir::Graph graph_;
  Recorder recorder_;
  Traced array_;
  std::vector<Traced> index_;
  double data_[6] = {1, 2, 3, 4, 5, 6};
};

TEST_F(Subscripts, LoadWrapsAndChecksEveryAxis) {
  ir::Value* results[] = {getitem(recorder_, array_, tuple_of(index_)).value};
  recorder_.builder().yield(results);
  for (int64_t i = -4; i < 4; i++) {
    for (int64_t j = -5; j < 5; j++) {
      const ir::EvalResult r = run(i, j);
      const bool row = i >= -2 && i < 2, column = j >= -3 && j < 3;
      if (row && column) {
        ASSERT_EQ(r.outcome, ir::EvalResult::Outcome::done);
        EXPECT_EQ(r.results[0], std::bit_cast<ir::Word>(data_[(i + 2) % 2 * 3 + (j + 3) % 3]));
      } else {
        ASSERT_EQ(r.outcome, ir::EvalResult::Outcome::failed);
        EXPECT_EQ(r.info, row ? (std::vector<int64_t>{j, 1, 3}) : (std::vector<int64_t>{i, 0, 2}));
      }
    }
  }
}

TEST_F(Subscripts, StoreMarksTheArrayWritten) {
  setitem(recorder_, array_, tuple_of(index_), py(recorder_.builder().i64(9)));
  recorder_.builder().yield({});
  EXPECT_TRUE(recorder_.written);
  EXPECT_EQ(run(-1, -1).outcome, ir::EvalResult::Outcome::done);
  EXPECT_EQ(data_[5], 9);
}

TEST_F(Subscripts, AtomicSubtractionAddsTheNegative) {
  atomic_update(recorder_, BinaryOp::subtract, array_, tuple_of(index_), py(recorder_.builder().i64(9)));
  recorder_.builder().yield({});
  EXPECT_EQ(run(0, 1).outcome, ir::EvalResult::Outcome::done);
  EXPECT_EQ(data_[1], -7);
}

TEST_F(Subscripts, OtherSubscriptsAreRefused) {
  EXPECT_THROW(getitem(recorder_, array_, tuple_of({index_[0], index_[0], index_[0]})), Abort);
  EXPECT_THROW(getitem(recorder_, array_, tuple_of({index_[0], constant(recorder_, Py_True)})), Abort);
}

TEST_F(Subscripts, AttributesOfArrays) {
  const Traced shape = getattr(recorder_, array_, "shape");
  ir::Value* results[] = {shape.items[0].value, shape.items[1].value, getattr(recorder_, array_, "size").value,
                          getattr(recorder_, array_, "ndim").value, getattr(recorder_, array_, "nbytes").value};
  recorder_.builder().yield(results);
  EXPECT_EQ(run(0, 0).results, (std::vector<ir::Word>{2, 3, 6, 2, 48}));
  const Ref dtype = evaluate_python("np.dtype('f8')");
  EXPECT_EQ(getattr(recorder_, array_, "dtype").object.get(), dtype.get());
  const Traced transposed = getattr(recorder_, array_, "T");
  EXPECT_EQ(transposed.tensor->axes[0].dim, 1);
  EXPECT_EQ(transposed.tensor->axes[1].dim, 0);
}

}  // namespace
}  // namespace appy::trace::testing
