#include "lower.h"

#include "ir/eval.h"
#include "ir/footprint.h"
#include "ir/text.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "support/ref.h"

namespace appy {
namespace {

using ir::DType;
using ir::Word;

std::string type_text(const ir::Type& type) {
  std::string text(ir::name_of(type.dtype));
  if (!type.is_view()) return text;
  constexpr const char* layouts[] = {"strided", "inner", "c", "f", "pairs"};
  return text + "[" + std::to_string(type.rank) + "] " + layouts[static_cast<size_t>(type.layout)];
}

bool append_array(std::vector<Word>& words, PyObject* object, const ir::Type& type) {
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  int flags = NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
  if (type.layout == ir::Layout::c) flags |= NPY_ARRAY_C_CONTIGUOUS;
  if (type.layout == ir::Layout::f) flags |= NPY_ARRAY_F_CONTIGUOUS;
  bool fits = PyArray_Check(object) && PyArray_TYPE(array) == runtime::type_number(type.dtype) &&
              PyArray_ISNOTSWAPPED(array) && PyArray_NDIM(array) == type.rank &&
              (PyArray_FLAGS(array) & flags) == flags;
  if (fits && type.layout == ir::Layout::inner && type.rank > 0)
    fits = PyArray_DIM(array, type.rank - 1) <= 1 || PyArray_STRIDE(array, type.rank - 1) == PyArray_ITEMSIZE(array);
  if (!fits) return false;
  words.push_back(reinterpret_cast<Word>(PyArray_BYTES(array)));
  for (int d = 0; d < type.rank; d++) words.push_back(static_cast<Word>(PyArray_DIM(array, d)));
  for (int d = 0; d < type.rank; d++) words.push_back(static_cast<Word>(PyArray_STRIDE(array, d)));
  return true;
}

bool append_scalar(std::vector<Word>& words, PyObject* object, DType dtype) {
  if (auto type = runtime::scalar_type_of(object)) {
    Word word;
    if (!runtime::read_word(object, *type, &word)) return false;
    words.push_back(runtime::convert_word(runtime::graph_type(*type), dtype, word));
    return true;
  }
  return false;
}

PyObject* to_number(const ir::Type& type, Word word) {
  using runtime::ScalarKind;
  if (ir::is_real(type.dtype))
    return runtime::make_scalar({ScalarKind::py_float, DType::f64_},
                                runtime::convert_word(type.dtype, DType::f64_, word));
  if (type.dtype == DType::bool_) return runtime::make_scalar({ScalarKind::py_bool, DType::bool_}, word);
  if (type.dtype == DType::u64_) return PyLong_FromUnsignedLongLong(word);
  return PyLong_FromLongLong(static_cast<int64_t>(word));
}

}  // namespace

Lowered::Lowered(std::unique_ptr<ir::Graph> traced, std::unique_ptr<ir::Graph> optimised, runtime::Signature signature)
    : traced_(std::move(traced)), optimised_(std::move(optimised)), signature_(std::move(signature)) {}
Lowered::~Lowered() = default;

std::string Lowered::text(bool optimised) const { return ir::print(optimised ? *optimised_ : *traced_); }

std::string Lowered::footprints() const { return ir::print(*traced_, ir::footprint(*traced_)); }

std::vector<std::pair<std::string, std::string>> Lowered::parameters() const {
  std::vector<std::pair<std::string, std::string>> list;
  for (const ir::Value* param : traced_->body->args) list.emplace_back(param->name, type_text(param->type));
  for (const runtime::Input& in : signature_.inputs)
    if (in.param >= 0 && in.same_view_as < 0) list[static_cast<size_t>(in.param)].first = in.name;
  return list;
}

PyObject* Lowered::run(PyObject* const* args, size_t count, bool optimised) const {
  const ir::Graph& graph = optimised ? *optimised_ : *traced_;
  const auto& params = graph.body->args;
  if (count != params.size())
    return PyErr_Format(PyExc_TypeError, "the graph takes %zu arguments, not %zu", params.size(), count);
  std::vector<Word> words;
  for (size_t i = 0; i < count; i++) {
    const ir::Type& type = params[i]->type;
    bool ok = type.is_view() ? append_array(words, args[i], type) : append_scalar(words, args[i], type.dtype);
    if (!ok) return PyErr_Format(PyExc_TypeError, "argument %zu is no %s", i, type_text(type).c_str());
  }
  for (const runtime::AskedExtent& asked : signature_.asked) {
    if (!asked.single || asked.extent(words.data()) == 1) continue;
    return PyErr_Format(PyExc_ValueError, "a slice that had one element when the graph was made has another number");
  }
  ir::EvalResult result = ir::evaluate(graph, words);
  using Outcome = ir::EvalResult::Outcome;
  const char* outcome = result.outcome == Outcome::done       ? "done"
                        : result.outcome == Outcome::declined ? "declined"
                                                              : "failed";
  Ref results = Ref::steal(PyList_New(0)), info = Ref::steal(PyList_New(0));
  if (!results || !info) return nullptr;
  const auto& yielded = graph.body->last->operands;
  for (size_t i = 0; i < result.results.size() && i < yielded.size(); i++) {
    Ref value = Ref::steal(to_number(yielded[i]->type, result.results[i]));
    if (!value || PyList_Append(results.get(), value.get()) < 0) return nullptr;
  }
  for (int64_t word : result.info) {
    Ref value = Ref::steal(PyLong_FromLongLong(word));
    if (!value || PyList_Append(info.get(), value.get()) < 0) return nullptr;
  }
  Ref check = result.check < 0 ? Ref::borrow(Py_None) : Ref::steal(PyLong_FromLong(result.check));
  return Py_BuildValue("{s:s,s:O,s:O,s:O}", "outcome", outcome, "results", results.get(), "check", check.get(), "info",
                       info.get());
}

}  // namespace appy
