// The arguments of a call of a function or a method of arrays, and the handlers that stand in files of their own.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/functions.h"
#include "trace/tensor.h"

namespace appy::trace {

using Named = std::span<const std::pair<std::string, Traced>>;

/// The arguments by parameter; what is not given is unbound.
class Call {
 public:
  Call(Context&, const char* name, std::string_view parameters, Args, Named);

  Context& context() const { return c_; }
  [[noreturn]] void refuse_arguments() const;
  /// Unbound where it is not given, None, or no parameter.
  Traced operator[](std::string_view name) const;
  bool given(std::string_view name) const { return (*this)[name].kind != Kind::unbound; }
  /// An array, or a tuple of numbers as the array that NumPy makes of it.
  TensorRef array(std::string_view name) const;
  bool flag(std::string_view name) const;
  /// A constant integer; `otherwise` where it is not given.
  int64_t integer(std::string_view name, int64_t otherwise) const;
  std::optional<ir::DType> dtype(std::string_view name = "dtype") const;
  /// The dimensions that an `axis` argument names; all where it is not given.
  Axes axes(int rank, std::string_view name = "axis") const;
  void refuse_given(std::initializer_list<std::string_view> names) const;

 private:
  Context& c_;
  const char* name_;
  std::vector<std::string> names_;
  std::vector<Traced> values_;
};

// tensor_shapes.cpp
Traced diagonal(const Call&);
Traced diag(const Call&);
Traced trace_of(const Call&);
Traced eye(const Call&);
Traced upper_triangle(const Call&);
Traced lower_triangle(const Call&);

// tensor_joined.cpp
Traced reshape(const Call&);
Traced ravel(const Call&);
Traced flatten(const Call&);
Traced concatenate(const Call&);
Traced stack(const Call&);
Traced hstack(const Call&);
Traced vstack(const Call&);
Traced column_stack(const Call&);

}  // namespace appy::trace
