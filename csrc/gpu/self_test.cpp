#include "gpu/self_test.h"

#include <numeric>
#include <string>
#include <vector>

#include "gpu/cache.h"
#include "gpu/device.h"

namespace appy::gpu {

namespace {

constexpr const char* kText = R"(struct Params {
  int* values;
  int n;
};
extern "C" __global__ void self_test(const Params p) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.n) p.values[i] = 2 * p.values[i] + 1;
}
)";

struct Params {
  CUdeviceptr values;
  int n;
};

}  // namespace

void self_test(int ordinal) {
  Device& target = device(ordinal);
  const auto module =
      target.load(cached_compile({"self_test.cu", kText, {}, {}}, target.properties().compute_capability));
  const Function kernel = module->function("self_test");
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 0);
  const size_t bytes = values.size() * sizeof(int);
  const DeviceMemory memory = target.allocate(bytes, 0);
  const Params params{memory.address(), static_cast<int>(values.size())};
  Launch how;
  how.threads[0] = 128;
  how.blocks[0] = 8;
  target.copy_in(memory.address(), values.data(), bytes, 0);
  target.launch(kernel, how, 0, &params);
  target.copy_out(values.data(), memory.address(), bytes, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == static_cast<int>(2 * i + 1)) continue;
    throw Error(ErrorKind::other, "a kernel gives a wrong answer on device " + std::to_string(ordinal), "");
  }
}

}  // namespace appy::gpu
