// Regions that are one triangular substitution and nothing else (passes/solves.cpp): a library may compute them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/host_part.h"
#include "ir/ir.h"

namespace appy::gpu {

struct WholeSolve {
  ir::Solve of;
  ir::DType type = ir::DType::f64_;
  size_t matrix = 0, x = 0, b = 0;  // their first argument words
  size_t rows = 0;                  // the word that says how many there are
};

/// Where the graph says that it is one, and the host knows all else.
std::optional<WholeSolve> whole_solve_of(const ir::Graph&, const HostPart&, const std::vector<bool>& unaligned);

/// Are the operands for a library?
bool takes(const WholeSolve&, std::span<const ir::Word> arguments);
/// Is it expected to be faster than the kernel?
bool pays(const WholeSolve&, std::span<const ir::Word> arguments);

/// Computes it by cuBLAS, and names that; empty, and nothing of the operands has changed, where there is none, it
/// cannot, or x would not be finite: a zero on the diagonal, an infinity and what overflows appear elsewhere in x than
/// the order of the loop has them. Beside a zero of x a library may leave them out, so that there the matrix is looked
/// at, too. It waits for the stream to know. The device's context is current.
std::string solve(const WholeSolve&, Device&, Stream, std::span<const ir::Word> arguments);

}  // namespace appy::gpu
