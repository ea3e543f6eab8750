// Readers of CPython's packed location and exception tables (Objects/locations.md, Objects/exception_handling_notes.txt
// describe the formats, which are the same in 3.11, 3.12 and 3.13).
#include "bytecode/bytecode.h"
#include "support/ref.h"

namespace appy::bytecode {
namespace {

class Bytes {
 public:
  explicit Bytes(PyObject* bytes) {
    if (bytes && PyBytes_Check(bytes)) {
      at_ = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes));
      end_ = at_ + PyBytes_GET_SIZE(bytes);
    }
  }
  bool more() const { return at_ < end_; }
  int byte() { return more() ? *at_++ : 0; }

 private:
  const unsigned char* at_ = nullptr;
  const unsigned char* end_ = nullptr;
};

// Six bits a byte, least significant first; bit 6 says that more follow.
int location_varint(Bytes& in) {
  int value = 0;
  for (int shift = 0; shift < 30; shift += 6) {
    const int b = in.byte();
    value |= (b & 63) << shift;
    if (!(b & 64)) break;
  }
  return value;
}

int location_signed(Bytes& in) {
  const int v = location_varint(in);
  return v & 1 ? -(v >> 1) : v >> 1;
}

// Six bits a byte, most significant first; bit 7 marks the first byte of an entry.
int handler_varint(Bytes& in) {
  int b = in.byte();
  int value = b & 63;
  while (b & 64) {
    b = in.byte();
    value = value << 6 | (b & 63);
  }
  return value;
}

}  // namespace

std::vector<Position> positions(PyCodeObject* code) {
  enum Form { one_line_first = 10, one_line_last = 12, no_columns = 13, full = 14, none = 15 };
  std::vector<Position> out;
  Bytes in(code->co_linetable);
  int line = code->co_firstlineno;
  while (in.more()) {
    const int head = in.byte();
    const int form = head >> 3 & 15;
    const int units = (head & 7) + 1;
    Position p;
    if (form == none) {
    } else if (form == full) {
      line += location_signed(in);
      p.line = line;
      p.end_line = line + location_varint(in);
      p.column = location_varint(in) - 1;
      p.end_column = location_varint(in) - 1;
    } else if (form == no_columns) {
      line += location_signed(in);
      p.line = p.end_line = line;
    } else if (form >= one_line_first && form <= one_line_last) {
      line += form - one_line_first;
      p.line = p.end_line = line;
      p.column = in.byte();
      p.end_column = in.byte();
    } else {
      const int columns = in.byte();
      p.line = p.end_line = line;
      p.column = form << 3 | columns >> 4;
      p.end_column = p.column + (columns & 15);
    }
    out.insert(out.end(), static_cast<size_t>(units), p);
  }
  return out;
}

std::vector<Handler> handlers(PyCodeObject* code) {
  std::vector<Handler> out;
  Bytes in(code->co_exceptiontable);
  while (in.more()) {
    const int begin = handler_varint(in) * 2;
    const int length = handler_varint(in) * 2;
    const int target = handler_varint(in) * 2;
    handler_varint(in);  // depth and lasti
    out.push_back({begin, begin + length, target});
  }
  return out;
}

}  // namespace appy::bytecode
