// The emulated device itself: what kernels do on it is what CUDA says.
#include "gpu_emulator.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace appy::gpu::test {
namespace {

const bool ready = use_emulator();

struct Parameters {
  CUdeviceptr out, in;
  int n;
};

/// Runs "body" with `out`, `in` (doubles) and `n`, and gives the output.
std::vector<double> run(const std::string& body, const std::vector<double>& in, size_t outputs, Launch how) {
  Device& d = device(0);
  const std::string text =
      "#include \"appy_ptx.h\"\nstruct P { double* out; const double* in; int n; };\n"
      "extern \"C\" __global__ void kernel(const P p) {\n  double* out = p.out; const double* in = p.in; const int n = "
      "p.n;\n"
      "  const int t = threadIdx.x, lane = t % 32;\n" +
      body + "\n}\n";
  const auto module = d.load(compile({"test.cu", text, {}, {"--fmad=false"}}, 90));
  const Function kernel = module->function("kernel");
  DeviceMemory from = d.allocate(in.size() * 8, 0), to = d.allocate(outputs * 8, 0);
  d.copy_in(from.address(), in.data(), in.size() * 8, 0);
  d.set_bytes(to.address(), 0, outputs * 8, 0);
  const Parameters p{to.address(), from.address(), static_cast<int>(in.size())};
  d.launch(kernel, how, 0, &p);
  std::vector<double> out(outputs);
  d.copy_out(out.data(), to.address(), outputs * 8, 0);
  return out;
}

Launch block_of(unsigned threads, unsigned shared = 0, unsigned blocks = 1) {
  Launch how;
  how.blocks[0] = blocks;
  how.threads[0] = threads;
  how.shared_bytes = shared;
  return how;
}

/// Each order of threads must give the same, unless a barrier is missing.
class Emulator : public testing::TestWithParam<const char*> {
 protected:
  Variable order_{"APPY_EMULATOR_ORDER", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Orders, Emulator, testing::Values("forward", "reverse", "depth", "1", "2", "3"));

TEST_P(Emulator, Shuffles) {
  const auto out = run(R"(
    const unsigned all = 0xffffffffu;
    out[t] = __shfl_sync(all, t * 1.5, 5);
    out[64 + t] = __shfl_sync(all, t, 9, 8);
    out[128 + t] = __shfl_up_sync(all, (long long)t << 33, 3) >> 33;
    out[192 + t] = __shfl_down_sync(all, (float)t, 2, 16);
    out[256 + t] = __shfl_xor_sync(all, (unsigned char)t, 7);)",
                       {}, 320, block_of(64));
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32, warp = t - lane;
    EXPECT_EQ(out[t], (warp + 5) * 1.5);
    EXPECT_EQ(out[64 + t], t / 8 * 8 + 1);
    EXPECT_EQ(out[128 + t], lane < 3 ? t : t - 3);
    EXPECT_EQ(out[192 + t], t % 16 < 14 ? t + 2 : t);
    EXPECT_EQ(out[256 + t], t ^ 7);
  }
}

TEST_P(Emulator, VotesOfPartsOfAWarp) {
  const auto out = run(R"(
    // Odd and even lanes at once, each with a mask of its own, in loops of different length.
    const unsigned mask = lane % 2 ? 0xaaaaaaaau : 0x55555555u;
    unsigned seen = 0;
    for (int round = 0; round < 3 + lane % 2; ++round) seen = __ballot_sync(mask, lane % 3 == round % 3);
    out[t] = seen;
    out[40 + t] = __any_sync(mask, lane == 4) * 2 + __all_sync(mask, lane % 2);
    out[80 + t] = __match_any_sync(mask, lane / 8);
    out[120 + t] = __reduce_max_sync(mask, lane) + 100 * __reduce_add_sync(mask, 1) + (__activemask() >> lane & 1) * 10000;)",
                       {}, 160, block_of(32));
  for (int lane = 0; lane < 32; ++lane) {
    const bool odd = lane % 2;
    unsigned ballot = 0, match = 0;
    for (int other = odd; other < 32; other += 2) {
      if (other % 3 == (odd ? 3 : 2) % 3) ballot |= 1u << other;
      if (other / 8 == lane / 8) match |= 1u << other;
    }
    EXPECT_EQ(out[lane], ballot);
    EXPECT_EQ(out[40 + lane], odd ? 1 : 2);
    EXPECT_EQ(out[80 + lane], match);
    EXPECT_EQ(out[120 + lane], (odd ? 31 : 30) + 1600 + 10000);
  }
}

TEST_P(Emulator, LanesThatRunTogether) {
  const auto out = run(R"(
    out[t] = __activemask();
    if (lane < 8) out[40 + t] = __activemask();  // the others wait, or come to the next one
    __syncwarp();
    if (lane == 5) return;
    for (int round = 0; round < 3; ++round) out[80 + t] = __activemask();)",
                       {}, 120, block_of(32));
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], ~0u);
    if (lane < 8) {
      EXPECT_EQ(out[40 + lane], 0xffu);
    }
    if (lane != 5) {
      EXPECT_EQ(out[80 + lane], ~(1u << 5));
    }
  }
}

TEST_P(Emulator, BarriersCountThreadsThatHaveNotReturned) {
  const auto out = run(R"(
    double* shared = reinterpret_cast<double*>(appy_shared());
    shared[t] = in[t];
    if (t >= 50) return;
    __syncthreads();
    double total = 0;
    for (int k = 0; k < 50; ++k) total += shared[k];
    const int any = __syncthreads_or(t == 7), none = __syncthreads_or(0);
    const int all = __syncthreads_and(t < 50), some = __syncthreads_count(t % 2);
    out[t] = total + 1000 * any + 2000 * none + 4000 * all + 10000 * some;)",
                       std::vector<double>(70, 2.0), 50, block_of(70, 70 * 8));
  for (double value : out) EXPECT_EQ(value, 100 + 1000 + 4000 + 250000);
}

TEST_P(Emulator, BlocksOfThreeDimensions) {
  Launch how;
  how.blocks[0] = 2, how.blocks[1] = 3, how.blocks[2] = 2;
  how.threads[0] = 4, how.threads[1] = 2, how.threads[2] = 3;
  const auto out = run(R"(
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int own = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    atomicAdd(out + block * 24 + own, 1.0 + block);
    __syncthreads();
    const int count = __syncthreads_count(1);
    if (own == 0) atomicAdd(out + 288, count);)",
                       {}, 289, how);
  for (int i = 0; i < 288; ++i) EXPECT_EQ(out[i], 1 + i / 24);
  EXPECT_EQ(out[288], 12 * 24);
}

TEST_P(Emulator, GridBarriers) {
  Launch how = block_of(64, 0, 4);
  how.cooperative = true;
  const auto out = run(R"(
    // Rounds of a stencil on all blocks: each reads what its neighbours wrote in the round before.
    unsigned* counter = reinterpret_cast<unsigned*>(out + 512);
    const int i = blockIdx.x * 64 + t;
    double* now = out, *next = out + 256;
    now[i] = i == 100;
    for (unsigned round = 1; round <= 21; ++round) {
      __syncthreads();
      if (t == 0) {
        appy_add_acq_rel(counter, 1);
        while (appy_load_acquire(counter) < round * gridDim.x) appy_pause();
      }
      __syncthreads();
      if (round == 21) break;
      next[i] = now[(i + 255) % 256] + now[(i + 1) % 256];
      double* swap = now; now = next; next = swap;
    })",
                       {}, 513, how);
  double total = 0;
  for (int i = 0; i < 256; ++i) total += out[i];
  EXPECT_EQ(total, std::ldexp(1.0, 20));
  EXPECT_EQ(out[100], 184756);  // 20 over 10
}

TEST_P(Emulator, Atomics) {
  const auto out = run(R"(
    int* words = reinterpret_cast<int*>(out);
    atomicAdd(words, t);
    atomicMax(words + 1, t * 3);
    atomicMin(words + 2, -t);
    atomicOr(words + 3, 1 << (t % 8));
    atomicXor(words + 4, t);
    atomicAdd(reinterpret_cast<float*>(words + 5), 0.5f);
    atomicInc(reinterpret_cast<unsigned*>(words + 6), 9);
    unsigned short* half = reinterpret_cast<unsigned short*>(words + 7);
    for (unsigned short seen = *half; ; ) {
      const unsigned short before = atomicCAS(half, seen, (unsigned short)(seen + 3));
      if (before == seen) break;
      seen = before;
    }
    out[4 + t] = atomicExch(reinterpret_cast<unsigned long long*>(out + 110), (unsigned long long)t + 1) < 200;)",
                       {}, 111, block_of(100));
  int words[8];
  std::memcpy(words, out.data(), sizeof words);
  float sum;
  std::memcpy(&sum, words + 5, 4);
  int x = 0;
  for (int t = 0; t < 100; ++t) x ^= t;
  EXPECT_EQ(words[0], 4950);
  EXPECT_EQ(words[1], 297);
  EXPECT_EQ(words[2], -99);
  EXPECT_EQ(words[3], 255);
  EXPECT_EQ(words[4], x);
  EXPECT_EQ(sum, 50);
  EXPECT_EQ(words[6], 0);
  EXPECT_EQ(words[7], 300);
  for (int t = 0; t < 100; ++t) EXPECT_EQ(out[4 + t], 1);
}

TEST(EmulatedArithmetic, ConversionsSaturate) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> in{0, 1.5, 2.5, -1.5, 3e9, -3e9, 1e19, -1e19, 1e30, inf, -inf, NAN};
  const size_t n = in.size();
  const auto out = run(R"(
    out[t] = __double2int_rz(in[t]);
    out[n + t] = __double2uint_rn(in[t]);
    out[2 * n + t] = (double)__double2ll_rd(in[t]);
    out[3 * n + t] = (double)__double2ull_rz(in[t]);)",
                       in, 4 * n, block_of(static_cast<unsigned>(n)));
  const auto row = [&](size_t k) { return std::vector<double>(out.begin() + k * n, out.begin() + (k + 1) * n); };
  const double i = 2147483647, m = -2147483648.0, l = 9223372036854775808.0, u = 18446744073709551616.0;
  EXPECT_EQ(row(0), (std::vector<double>{0, 1, 2, -1, i, m, i, m, i, i, m, 0}));
  EXPECT_EQ(row(1), (std::vector<double>{0, 2, 2, 0, 3e9, 0, 2 * i + 1, 0, 2 * i + 1, 2 * i + 1, 0, 0}));
  EXPECT_EQ(row(2), (std::vector<double>{0, 1, 2, -2, 3e9, -3e9, l, -l, l, l, -l, 0}));
  EXPECT_EQ(row(3), (std::vector<double>{0, 1, 2, 0, 3e9, 0, 1e19, 0, u, u, 0, 0}));
}

TEST(EmulatedArithmetic, HalvesAndFloats) {
  const auto out = run(R"(
    out[0] = appy_half_to_float(appy_float_to_half(1.0f / 3));
    out[1] = appy_half_to_float(appy_double_to_half(2049.0000001));  // by way of a float it would be 2048
    out[2] = appy_half_to_float(appy_float_to_half(65520.0f));
    out[3] = appy_half_to_float(appy_double_to_half(5.96e-8));
    out[11] = appy_bfloat_to_float(appy_float_to_bfloat(1.0f + 0x1p-8f));
    out[12] = appy_bfloat_to_float(appy_float_to_bfloat(1.0f + 0x3p-8f));
    out[13] = appy_bfloat_to_float(appy_float_to_bfloat((float)in[1]));
    out[4] = sizeof(sqrt(2.0f)) + sizeof(exp(1.0f)) + sizeof(min(1.0f, 2.0f)) + sizeof(fabs(1.0f));
    out[5] = __fma_rn(1.0 + 0x1p-30, 1.0 - 0x1p-30, -1.0);
    out[6] = (1.0 + in[0]) * (1.0 - in[0]) - 1.0;
    out[7] = __mul64hi(-3ll << 60, 5ll << 60);
    out[8] = __longlong_as_double(__double_as_longlong(-0.75)) + __int_as_float(0x40000000);
    out[9] = __clz(1) + 100 * __popcll(~0ull) + 100000 * __ffs(8);
    out[10] = fmin(in[1], 1.0) + max(3, 4) + rsqrt(4.0) + (__umul64hi(~0ull, ~0ull) == ~0ull - 1);)",
                       {std::ldexp(1.0, -30), NAN}, 14, block_of(1));
  EXPECT_EQ(out[0], 0.333251953125);
  EXPECT_EQ(out[11], 1);
  EXPECT_EQ(out[12], 1 + 0x1p-6);
  EXPECT_TRUE(std::isnan(out[13]));
  EXPECT_EQ(out[1], 2050);
  EXPECT_TRUE(std::isinf(out[2]));
  EXPECT_EQ(out[3], std::ldexp(1.0, -24));
  EXPECT_EQ(out[4], 16);
  EXPECT_EQ(out[5], -std::ldexp(1.0, -60));
  EXPECT_EQ(out[6], 0);  // with --fmad=false nothing is contracted
  EXPECT_EQ(out[7], -std::ldexp(15.0, 56));
  EXPECT_EQ(out[8], 1.25);
  EXPECT_EQ(out[9], 31 + 6400 + 400000);
  EXPECT_EQ(out[10], 6.5);
}

/// What the orders are for: each thread reads its neighbour's value of a shared array without a barrier.
TEST(EmulatedOrder, MissingBarriersAreSeen) {
  const char* body = R"(
    double* shared = reinterpret_cast<double*>(appy_shared());
    shared[t] = t;
    out[t] = shared[(t + n) % 32];)";
  const auto wrong = [&](const char* order, size_t distance) {
    const Variable variable("APPY_EMULATOR_ORDER", order);
    const auto out = run(body, std::vector<double>(distance), 32, block_of(32, 256));
    int count = 0;
    for (size_t t = 0; t < 32; ++t) count += out[t] != static_cast<double>((t + distance) % 32);
    return count;
  };
  EXPECT_GT(wrong("forward", 1), 0);
  EXPECT_GT(wrong("reverse", 31), 0);
  EXPECT_GT(wrong("7", 1), 0);
}

/// Nothing has happened before something waits for it.
TEST(EmulatedOrder, StreamsRunLate) {
  Device& d = device(0);
  MappedMemory pinned = d.allocate_mapped(8);
  DeviceMemory memory = d.allocate(8, 0);
  d.set_bytes(memory.address(), 1, 8, 0);
  {
    const Device::Current current(d);
    ASSERT_EQ(driver().copy_to_host(pinned.host(), memory.address(), 8, nullptr), 0);
  }
  EXPECT_EQ(*static_cast<uint64_t*>(pinned.host()), 0u);
  d.synchronize(0);
  EXPECT_EQ(*static_cast<uint64_t*>(pinned.host()), 0x0101010101010101u);
}

void expect_lost(const char* body, Launch how, const char* reason) {
  testing::internal::CaptureStderr();
  expect_error(ErrorKind::lost_device, "", [&] { run(body, {}, 1, how); });
  EXPECT_NE(testing::internal::GetCapturedStderr().find(reason), std::string::npos);
}

/// In processes of their own: a lost device stays lost.
TEST(EmulatedFaults, AreReported) {
  const auto in_child = [](auto&& what) {
    EXPECT_EXIT(
        {
          what();
          _exit(testing::Test::HasFailure());
        },
        testing::ExitedWithCode(0), "");
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  in_child(
      [] { expect_lost("appy_shared()[64 + t] = 1;", block_of(4, 64), "a store behind the end of shared memory"); });
  in_child([] { expect_lost("if (t == 3) __trap();", block_of(4), "__trap()"); });
  in_child([] { expect_lost("__syncwarp(1u << (t + 1) % 4);", block_of(4), "but not in its mask"); });
  in_child(
      [] { expect_lost("if (t) __syncwarp(0xf); else __shfl_sync(3, t, 0);", block_of(4), "4 of 4 threads wait"); });
}

}  // namespace
}  // namespace appy::gpu::test
