// What of Debian's libasmjit.a is replaced.
#include <asmjit/core/api-config.h>

#include <cstdio>

// The archive refers to `stderr` in a way that cannot be linked into a shared object; the build renames that reference
// to this definition (cmake/dependencies.cmake).
extern "C" {
__attribute__((visibility("hidden"))) FILE* appy_asmjit_stderr = stderr;
}

// Debian builds it with its assertions. One of them looks at all registers whenever one is assigned or freed, which is
// a quarter of the time from bytecode to machine code. It is a weak symbol there, as an inline function of a header
// that is not installed.
ASMJIT_BEGIN_NAMESPACE
class RAAssignment {
 public:
  bool verify() noexcept;
};
bool RAAssignment::verify() noexcept { return true; }
ASMJIT_END_NAMESPACE
