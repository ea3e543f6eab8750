#include "support/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace appy {

namespace {

/// Is it the object that this function is in?
bool is_ours(const dl_phdr_info& object) {
  const auto here = reinterpret_cast<uintptr_t>(&is_ours);
  for (size_t k = 0; k < object.dlpi_phnum; ++k) {
    const ElfW(Phdr)& part = object.dlpi_phdr[k];
    const uintptr_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && here >= begin && here - begin < part.p_memsz) return true;
  }
  return false;
}

std::string in_notes(const unsigned char* at, size_t bytes) {
  const auto aligned = [](size_t n) { return (n + 3) & ~size_t{3}; };
  for (ElfW(Nhdr) note; bytes >= sizeof note;) {
    std::memcpy(&note, at, sizeof note);
    const size_t name = sizeof note, content = name + aligned(note.n_namesz), end = content + aligned(note.n_descsz);
    if (end > bytes) return {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(at + name, "GNU", 4) == 0) {
      std::string out;
      for (size_t k = content; k < content + note.n_descsz; ++k) {
        out += "0123456789abcdef"[at[k] >> 4];
        out += "0123456789abcdef"[at[k] & 15];
      }
      return out;
    }
    at += end;
    bytes -= end;
  }
  return {};
}

int visit(dl_phdr_info* object, size_t, void* out) {
  if (!is_ours(*object)) return 0;
  std::string& found = *static_cast<std::string*>(out);
  for (size_t k = 0; k < object->dlpi_phnum && found.empty(); ++k) {
    const ElfW(Phdr)& part = object->dlpi_phdr[k];
    if (part.p_type == PT_NOTE)
      found = in_notes(reinterpret_cast<const unsigned char*>(object->dlpi_addr + part.p_vaddr), part.p_memsz);
  }
  return 1;
}

}  // namespace

const std::string& build_id() {
  static const std::string id = [] {
    std::string found;
    dl_iterate_phdr(visit, &found);
    return found;
  }();
  return id;
}

}  // namespace appy
