// Operations on scalars whose Python type depends on the path: each alternative is computed (pure ops are total), its
// checks hold only where it is the one, and the results are joined.
#pragma once

#include "trace/emit.h"

namespace appy::trace {

/// A context whose checks matter only where `when` holds.
class Guarded : public Context {
 public:
  Guarded(Context& base, ir::Value* when) : base_(base), when_(when) {}
  ir::Builder& builder() override { return base_.builder(); }
  void check(ir::Check check, ir::Value* ok, std::span<ir::Value* const> info) override {
    Emit e(base_);
    base_.check(std::move(check), e.either(ok, e.negate(when_)), info);
  }
  int line() const override { return base_.line(); }
  bool exact() const override { return base_.exact(); }
  void mark_written(const Traced& array) override { base_.mark_written(array); }
  ir::Value* extent(const Traced& array, int dim) override { return base_.extent(array, dim); }
  std::optional<int64_t> sample(const ir::Value* v) const override { return base_.sample(v); }
  bool is_single(ir::Value* extent) override { return base_.is_single(extent); }
  std::optional<bool> settle(ir::Value* condition) override { return base_.settle(condition); }
  void poll() override { base_.poll(); }
  bool annotated() const override { return base_.annotated(); }
  runtime::Library library() const override { return base_.library(); }
  void make_arrays_of(const char* module, const char* function) override { base_.make_arrays_of(module, function); }

 private:
  Context& base_;
  ir::Value* when_;
};

/// A tag of two types is a bool, the index as it is; of more types an i64.
inline DType tag_type(size_t types) { return types == 2 ? DType::bool_ : DType::i64_; }
inline ir::Value* tag_of(Emit& e, size_t types, size_t i) { return e.constant(tag_type(types), i); }
/// True where the tagged scalar has its type `i`.
inline ir::Value* has_type(Emit& e, const Traced& t, size_t i) {
  if (t.types.size() != 2) return e.eq(t.tag, e.i64(static_cast<int64_t>(i)));
  return i == 1 ? t.tag : e.negate(t.tag);
}

/// The value as the alternative `i` of its tag has it.
Traced alternative(Context&, const Traced&, size_t i);

/// Is the scalar, whatever its Python type, known to be a number of the dtype?
bool holds(ir::DType, const Traced&);

/// A NumPy dtype that may do for all alternatives in place of the join's wider type: where the Python scalars among
/// them are known to fit, a loop then works on that dtype.
std::optional<ir::DType> narrower(const Join&);

/// results[i] where when[i] holds (exactly one does): a scalar, a tuple of scalars, or a range.
Traced merge(Context&, std::span<ir::Value* const> when, std::span<const Traced> results);

/// f(context, t) for every alternative of a tagged scalar.
template <class F>
Traced per_alternative(Context& context, const Traced& t, F&& f) {
  Emit e(context);
  std::vector<ir::Value*> when;
  std::vector<Traced> results;
  for (size_t i = 0; i < t.types.size(); i++) {
    when.push_back(has_type(e, t, i));
    Guarded guarded(context, when.back());
    results.push_back(f(static_cast<Context&>(guarded), alternative(guarded, t, i)));
  }
  return merge(context, when, results);
}

}  // namespace appy::trace
