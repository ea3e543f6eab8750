// Regions that are one Cholesky factorization and nothing else (passes/factors.cpp): a library may compute them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/host_part.h"
#include "ir/ir.h"

namespace appy::gpu {

struct WholeFactor {
  ir::Factorization of;
  ir::DType type = ir::DType::f64_;
  size_t matrix = 0;   // its first argument word
  size_t columns = 0;  // the word that says how many there are
};

/// Where the graph says that it is one, and the host knows all else.
std::optional<WholeFactor> whole_factor_of(const ir::Graph&, const HostPart&, const std::vector<bool>& unaligned);

/// Is the matrix for a library?
bool takes(const WholeFactor&, std::span<const ir::Word> arguments);
/// Is it expected to be faster than the kernel?
bool pays(const WholeFactor&, std::span<const ir::Word> arguments);

/// Computes it by cuSOLVER, and names that; empty, and the matrix has not changed, where there is none, it cannot, or
/// what comes out is not finite or of a matrix that is not positive definite: then NaN and infinities appear where the
/// order of the loops has them. It waits for the stream to know. The device's context is current.
std::string factor(const WholeFactor&, Device&, Stream, std::span<const ir::Word> arguments);

}  // namespace appy::gpu
