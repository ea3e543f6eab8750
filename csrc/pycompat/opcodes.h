// CPython's bytecode in one instruction set for all supported versions. Each version's raw opcodes are translated in
// its own file, opcodes_3xx.cpp; nothing outside this folder sees a raw opcode.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace appy::pycompat {

enum class Op : uint16_t {
#define X(name) name##_,
#include "pycompat/opcodes.def"
#undef X
};
std::string_view name_of(Op);

/// One translated instruction. Jump targets are byte offsets in co_code. `next` is the offset of the code unit after
/// the instruction and its caches.
struct Decoded {
  Op op = Op::nop_;
  int32_t arg = 0;
  int32_t arg2 = 0;
  int offset = 0;
  int next = 0;
};

/// All instructions of a code object in order: EXTENDED_ARG folded, caches left out, fused instructions split in two
/// with one offset. What has no translation becomes Op::unsupported_ with the raw opcode in `arg`. Leaves no exception
/// set; empty where the code cannot be read.
std::vector<Decoded> decode(PyCodeObject*);

/// The name of a raw opcode of the running version, for messages: "FORMAT_VALUE".
std::string raw_name(int opcode);

/// Implemented once for each version: appends the translation of one raw instruction. `next` as in Decoded.
void translate(int opcode, int arg, int offset, int next, std::vector<Decoded>& out);

}  // namespace appy::pycompat
