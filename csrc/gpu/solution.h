// What a library gives for a triangular substitution, looked at and taken on the device.
#pragma once

#include <cstdint>

#include "gpu/blas.h"
#include "gpu/device.h"
#include "gpu/nvrtc.h"

namespace appy::gpu {

/// Copies the solution x of a x = b, contiguous, to where it belongs, and says so; or leaves that as it is, where
/// something of x is infinite or no number, or where the library may have left out what is not zero: beside a zero of
/// x, unless all of its column is finite and, without `unit`, its element of the diagonal positive, which keeps a
/// zero's sign. More than a few zeros are refused. Waits for the stream. The device's context is current.
bool take_solution(Device&, Stream, bool is_double, bool unit, const Matrix& a, uint64_t x, uint64_t to);

/// Of the kernel that does so.
Source solution_source(bool is_double);

}  // namespace appy::gpu
