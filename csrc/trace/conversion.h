// Numbers converted between types: int(), stores into elements, constructors of NumPy scalars.
#pragma once

#include "trace/promote.h"

namespace appy::trace {

/// A float as a Python int, truncated: NaN, infinity and values beyond 64 bits leave the region.
ir::Value* truncate_to_int(Context&, ir::Value*);

/// NumPy's unsafe cast, with what x86-64 makes of floats out of range.
ir::Value* unsafe_cast(Context&, ir::Value*, DType);

/// The scalar as `array[i] = scalar` stores it: signed elements take what int() takes and fits; unsigned ones cast
/// NumPy scalars and check Python's.
ir::Value* stored(Context&, const Traced&, DType element);
/// The scalar as the constructor np.<type>(scalar) converts it: like stored(), but all NumPy scalars are cast.
ir::Value* constructed(Context&, const Traced&, DType);

}  // namespace appy::trace
