#include "pycompat/opcodes.h"

#include "support/ref.h"

namespace appy::pycompat {
namespace {

constexpr std::string_view names[] = {
#define X(name) #name,
#include "pycompat/opcodes.def"
#undef X
};

// Both values hold on every supported version's deoptimised code; the translation files never see them.
int extended_arg_opcode() {
  static const int opcode = [] {
    Ref module = Ref::steal(PyImport_ImportModule("opcode"));
    Ref map = Ref::steal(module ? PyObject_GetAttrString(module.get(), "opmap") : nullptr);
    PyObject* found = map ? PyDict_GetItemString(map.get(), "EXTENDED_ARG") : nullptr;
    const int value = found ? static_cast<int>(PyLong_AsLong(found)) : -1;
    PyErr_Clear();
    return value;
  }();
  return opcode;
}

}  // namespace

std::string_view name_of(Op op) { return names[static_cast<size_t>(op)]; }

std::string raw_name(int opcode) {
  Ref module = Ref::steal(PyImport_ImportModule("opcode"));
  Ref list = Ref::steal(module ? PyObject_GetAttrString(module.get(), "opname") : nullptr);
  PyObject* item = list && PyList_Check(list.get()) && opcode < PyList_GET_SIZE(list.get())
                       ? PyList_GET_ITEM(list.get(), opcode)
                       : nullptr;
  const char* text = item ? PyUnicode_AsUTF8(item) : nullptr;
  PyErr_Clear();
  return text ? text : std::to_string(opcode);
}

std::vector<Decoded> decode(PyCodeObject* code) {
  std::vector<Decoded> out;
  Ref bytes = Ref::steal(PyCode_GetCode(code));
  if (!bytes || !PyBytes_Check(bytes.get())) {
    PyErr_Clear();
    return out;
  }
  const auto* units = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes.get()));
  const int size = static_cast<int>(PyBytes_GET_SIZE(bytes.get()));
  const int extended = extended_arg_opcode();
  constexpr int cache = 0;
  out.reserve(static_cast<size_t>(size) / 2);
  for (int at = 0; at < size;) {
    const int start = at;
    int arg = units[at + 1];
    while (units[at] == extended && at + 2 < size) {
      at += 2;
      arg = arg << 8 | units[at + 1];
    }
    const int opcode = units[at];
    at += 2;
    while (at < size && units[at] == cache) at += 2;
    translate(opcode, arg, start, at, out);
  }
  return out;
}

}  // namespace appy::pycompat
