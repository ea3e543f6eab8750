#include "trace/emit.h"

#include <limits>

#include "ir/eval.h"
#include "runtime/scalar.h"
#include "support/check.h"

namespace appy::trace {

using ir::Value;
using ir::Word;

std::optional<Word> known(const Value* v) {
  if (!v->op || v->op->code != Opcode::const_) return {};
  return v->op->imm;
}

std::optional<int64_t> known_integer(const Value* v) {
  std::optional<Word> w = known(v);
  if (!w || ir::is_real(v->type.dtype)) return {};
  if (v->type.dtype == DType::u64_ && (*w >> 63)) return {};
  return static_cast<int64_t>(*w);
}

ir::Range bounds_of(DType t) {
  const int bits = 8 * ir::size_of(t);
  if (t == DType::bool_) return {0, 1};
  if (ir::is_signed(t)) return {INT64_MIN >> (64 - bits), INT64_MAX >> (64 - bits)};
  return {0, bits == 64 ? INT64_MAX : (int64_t{1} << bits) - 1};
}

Value* Emit::number(DType t, double v) {
  if (ir::is_real(t)) return constant(t, runtime::convert_word(DType::f64_, t, std::bit_cast<Word>(v)));
  return integer(t, static_cast<int64_t>(v));
}

Value* Emit::integer(DType t, int64_t v) {
  return constant(t, runtime::convert_word(DType::i64_, t, static_cast<Word>(v)));
}

Value* Emit::op(Opcode code, std::initializer_list<Value*> operands) {
  std::vector<Word> words;
  for (const Value* v : operands) {
    std::optional<Word> w = known(v);
    if (!w) return context_.builder().op(code, operands);
    words.push_back(*w);
  }
  const DType operand = (*(operands.begin() + (code == Opcode::select_)))->type.dtype;
  const DType result = ir::info(code).rule == ir::Rule::boolean ? DType::bool_ : operand;
  return constant(result, ir::evaluate_op(code, result, operand, words));
}

Value* Emit::cast(Value* v, DType t) {
  if (v->type.dtype == t) return v;
  std::optional<Word> w = known(v);
  if (!w || (ir::is_real(v->type.dtype) && ir::is_int(t))) return context_.builder().cast(v, t);
  return constant(t, runtime::convert_word(v->type.dtype, t, *w));
}

Value* Emit::select(Value* c, Value* a, Value* b) {
  if (a == b || known_true(c)) return a;
  if (known_false(c)) return b;
  return op(Opcode::select_, {c, a, b});
}

Value* Emit::both(Value* a, Value* b) {
  if (a == b || known_true(b) || known_false(a)) return a;
  if (known_true(a) || known_false(b)) return b;
  return op(Opcode::and_, {a, b});
}

Value* Emit::either(Value* a, Value* b) {
  if (a == b || known_true(a) || known_false(b)) return a;
  if (known_false(a) || known_true(b)) return b;
  return op(Opcode::or_, {a, b});
}

Value* Emit::negate(Value* c) { return op(Opcode::not_, {c}); }

void Emit::check(ir::CheckKind kind, Value* ok, std::string text, std::initializer_list<Value*> info) {
  if (known_true(ok)) return;
  ir::Check check;
  check.kind = kind;
  check.text = std::move(text);
  context_.check(std::move(check), ok, std::span<Value* const>(info.begin(), info.size()));
}

void refuse(const Context& context, AbortId id, std::string detail) {
  throw Abort(id, std::move(detail), context.line());
}

std::string describe(const Traced& t) {
  switch (t.kind) {
    case Kind::scalar:
      return t.tag ? "int or float, depending on the path" : runtime::name_of(t.type);
    case Kind::array:
    case Kind::tensor:
      return "np.ndarray";
    case Kind::complex:
      if (t.items.empty() || t.items[0].kind != Kind::scalar) return "np.ndarray";
      return t.items[0].is_np() ? (t.items[0].type.dtype == DType::f32_ ? "np.complex64" : "np.complex128") : "complex";
    case Kind::slice:
      return "slice";
    case Kind::tuple:
      return "tuple";
    case Kind::list:
      return "list";
    case Kind::range:
      return "range";
    case Kind::zero_d:
      return "0-d np.ndarray";
    case Kind::object:
      return Py_TYPE(t.object.get())->tp_name;
    case Kind::method:
      return "method " + t.name;
    default:
      return "unbound";
  }
}

std::string take_error_text(PyObject* result) {
  APPY_CHECK(!result && PyErr_Occurred(), "an operation that must raise did not");
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref owned[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  const Ref text = Ref::steal(PyObject_Str(value));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return utf8 ? utf8 : "";
}

Traced tuple_of(std::vector<Traced> items) {
  Traced t;
  t.kind = Kind::tuple;
  t.items = std::move(items);
  return t;
}

}  // namespace appy::trace
