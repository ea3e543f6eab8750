// Regions that are one Cholesky factorization and nothing else (passes/factors.cpp): LAPACK computes them where it is
// faster than their own code.
#pragma once

#include <memory>

#include "ir/ir.h"
#include "runtime/kernel.h"

namespace appy::cpu {

/// The kernel, or one that asks LAPACK first where the graph says that it is a factorization. What is not positive
/// definite or not finite is the kernel's: then NaN and infinities appear where the order of the loops has them.
std::unique_ptr<runtime::Kernel> factored(const ir::Graph&, std::unique_ptr<runtime::Kernel>);

}  // namespace appy::cpu
