// Ops and checks with constants folded on the way, so that graphs stay small: what the semantics are written in.
#pragma once

#include <bit>
#include <initializer_list>
#include <optional>
#include <string>

#include "support/abort.h"
#include "trace/semantics.h"

namespace appy::trace {

using ir::DType;
using ir::Opcode;
using runtime::PyScalarType;
using runtime::ScalarKind;

class Emit {
 public:
  explicit Emit(Context& context) : context_(context) {}
  Context& context() const { return context_; }

  ir::Value* constant(DType t, ir::Word w) { return context_.builder().constant(t, w); }
  ir::Value* i64(int64_t v) { return context_.builder().i64(v); }
  ir::Value* f64(double v) { return context_.builder().f64(v); }
  ir::Value* boolean(bool v) { return context_.builder().boolean(v); }
  /// The number in the type, as C converts it.
  ir::Value* number(DType, double);
  ir::Value* integer(DType, int64_t);

  /// A pure op whose result follows from its operands; constant operands are computed at once.
  ir::Value* op(Opcode, std::initializer_list<ir::Value*>);
  ir::Value* cast(ir::Value*, DType);
  ir::Value* select(ir::Value* c, ir::Value* a, ir::Value* b);
  ir::Value* both(ir::Value* a, ir::Value* b);
  ir::Value* either(ir::Value* a, ir::Value* b);
  ir::Value* negate(ir::Value* c);
  /// a < b and its kin.
  ir::Value* lt(ir::Value* a, ir::Value* b) { return op(Opcode::lt_, {a, b}); }
  ir::Value* le(ir::Value* a, ir::Value* b) { return op(Opcode::le_, {a, b}); }
  ir::Value* gt(ir::Value* a, ir::Value* b) { return op(Opcode::gt_, {a, b}); }
  ir::Value* ge(ir::Value* a, ir::Value* b) { return op(Opcode::ge_, {a, b}); }
  ir::Value* eq(ir::Value* a, ir::Value* b) { return op(Opcode::eq_, {a, b}); }
  ir::Value* ne(ir::Value* a, ir::Value* b) { return op(Opcode::ne_, {a, b}); }
  ir::Value* is_zero(ir::Value* v) { return eq(v, number(v->type.dtype, 0)); }
  /// a / b, rounded up.
  ir::Value* ceiling(ir::Value* a, ir::Value* b) {
    return op(ir::Opcode::floordiv_, {op(ir::Opcode::sub_, {op(ir::Opcode::add_, {a, b}), i64(1)}), b});
  }
  ir::Value* at_least_one(ir::Value* n) { return op(Opcode::pymax_, {n, i64(1)}); }
  ir::Value* non_zero(ir::Value* v) { return ne(v, number(v->type.dtype, 0)); }

  /// Leaves the region unless `ok`; nothing where `ok` is known to hold.
  void check(ir::CheckKind, ir::Value* ok, std::string text = {}, std::initializer_list<ir::Value*> info = {});

 private:
  Context& context_;
};

/// The word of a constant.
std::optional<ir::Word> known(const ir::Value*);
std::optional<int64_t> known_integer(const ir::Value*);  // of signed and bool types, and of u64 below 2^63
inline bool known_true(const ir::Value* v) { return known(v) == ir::Word{1}; }
inline bool known_false(const ir::Value* v) { return known(v) == ir::Word{0}; }

/// Inclusive bounds of an integer type; those of u64 are cut at 2^63 - 1.
ir::Range bounds_of(DType);

[[noreturn]] void refuse(const Context&, AbortId, std::string detail);
/// "int", "np.float32", "a tuple", ... for messages.
std::string describe(const Traced&);

/// What the running CPython says when `call` raises: str(exception); a fatal error where it does not raise.
template <class F>
std::string error_text(F&& call);
std::string take_error_text(PyObject* result);  // consumes the result and the exception
template <class F>
std::string error_text(F&& call) {
  return take_error_text(call());
}

/// The scalar type of an untagged scalar as a value of that type.
inline Traced make(const PyScalarType& type, ir::Value* value) {
  Traced t;
  t.kind = Kind::scalar, t.type = type, t.value = value;
  return t;
}
inline Traced py_int(ir::Value* v) { return make({ScalarKind::py_int, DType::i64_}, v); }
inline Traced py_float(ir::Value* v) { return make({ScalarKind::py_float, DType::f64_}, v); }
inline Traced py_bool(ir::Value* v) { return make({ScalarKind::py_bool, DType::bool_}, v); }
Traced tuple_of(std::vector<Traced> items);

}  // namespace appy::trace
