#include "cpu/lapack.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace appy::cpu {

namespace {

/// How symbols are called in the wheels of NumPy, in older ones, in those for integers of 32 bits, and elsewhere.
struct Naming {
  const char *before, *behind;
  bool wide;
};
constexpr std::array<Naming, 4> kNamings = {
    {{"scipy_", "64_", true}, {"", "64_", true}, {"scipy_", "", false}, {"", "", false}}};

std::vector<std::string> loaded() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        if (std::strstr(info->dlpi_name, "openblas"))
          static_cast<std::vector<std::string>*>(to)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

/// "OpenBLAS 0.3.29" of its name, version and options.
std::string name_of(std::string_view configuration) {
  const size_t version = configuration.find(' ');
  return std::string(configuration.substr(0, configuration.find(' ', version + 1)));
}

std::unique_ptr<Lapack> open(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return nullptr;
  for (const Naming& naming : kNamings) {
    const auto get = [&](const std::string& function) {
      return dlsym(handle, (naming.before + function + naming.behind).c_str());
    };
    void *const threads = get("openblas_get_num_threads"), *const configuration = get("openblas_get_config");
    auto made = std::make_unique<Lapack>();
    made->wide = naming.wide;
    made->dpotrf = get("dpotrf_");
    made->spotrf = get("spotrf_");
    if (!threads || !configuration || !made->dpotrf || !made->spotrf) continue;
    made->threads = reinterpret_cast<int (*)()>(threads);
    made->name = name_of(reinterpret_cast<const char* (*)()>(configuration)());
    return made;  // the process keeps it
  }
  dlclose(handle);
  return nullptr;
}

/// By reference, as Fortran has it, and the length of the string last.
template <class Int, class T>
bool factor_by(void* function, bool upper, int64_t n, T* a, int64_t leading) {
  const char triangle = upper ? 'U' : 'L';
  const Int order = static_cast<Int>(n), between = static_cast<Int>(leading);
  Int minor = 0;
  reinterpret_cast<void (*)(const char*, const Int*, T*, const Int*, Int*, size_t)>(function)(&triangle, &order, a,
                                                                                              &between, &minor, 1);
  return minor == 0;
}

template <class T>
bool factor_by(const Lapack& with, void* function, bool upper, int64_t n, T* a, int64_t leading) {
  return with.wide ? factor_by<int64_t>(function, upper, n, a, leading)
                   : factor_by<int32_t>(function, upper, n, a, leading);
}

}  // namespace

const Lapack* lapack() {
  static std::mutex mutex;
  static const Lapack* found = nullptr;
  std::lock_guard lock(mutex);
  if (found) return found;
  const char* const wanted = std::getenv("APPY_LAPACK");
  if (wanted && !std::strcmp(wanted, "none")) return nullptr;
  for (const std::string& path : loaded()) {
    if (std::unique_ptr<Lapack> opened = open(path)) return found = opened.release();
  }
  return nullptr;
}

bool factor(const Lapack& with, bool upper, int64_t n, double* a, int64_t leading) {
  return factor_by(with, with.dpotrf, upper, n, a, leading);
}

bool factor(const Lapack& with, bool upper, int64_t n, float* a, int64_t leading) {
  return factor_by(with, with.spotrf, upper, n, a, leading);
}

}  // namespace appy::cpu
