// Debian's libasmjit.a refers to `stderr` in a way that cannot be linked into a shared object; the build renames that
// reference to this definition (cmake/dependencies.cmake).
#include <cstdio>

extern "C" {
__attribute__((visibility("hidden"))) FILE* appy_asmjit_stderr = stderr;
}
