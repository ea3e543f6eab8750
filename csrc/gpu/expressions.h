// Pure operations as CUDA C++ expressions.
#pragma once

#include <string>
#include <vector>

#include "ir/ir.h"

namespace appy::gpu {

/// The C++ type of a scalar in registers.
const char* type_of(ir::DType);
/// The type of its elements in memory: bool is a byte that is 0 or 1.
const char* memory_type_of(ir::DType);
/// `a` is a name or a call.
std::string cast(ir::DType to, ir::DType from, const std::string& a);
std::string literal(ir::DType, ir::Word);
/// `arguments` are expressions that may be repeated: names or literals.
std::string expression(const ir::Op&, const std::vector<std::string>& arguments);
std::string expression(ir::Opcode, ir::DType, const std::vector<std::string>& arguments);

}  // namespace appy::gpu
