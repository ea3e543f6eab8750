#include "gpu/nvrtc.h"
#include "gpu_emulator.h"

namespace appy::gpu::test {
namespace {

const bool ready = use_emulator();

const Source kEmpty{"empty.cu", "extern \"C\" __global__ void empty(const int n) {}", {}, {}};

TEST(Nvrtc, FindsTheNamedLibrary) {
  EXPECT_EQ(compiler().path, APPY_EMULATOR);
  EXPECT_EQ(compiler().version, 13000);
  EXPECT_EQ(compiler().architectures, (std::vector<int>{75, 80, 90, 100}));
  const std::string identity = compiler_identity();
  EXPECT_EQ(identity.find(std::string(APPY_EMULATOR) + " "), 0u);
  EXPECT_EQ(identity, compiler_identity());
}

TEST(Nvrtc, MachineCodeForKnownArchitectures) {
  const Image image = compile(kEmpty, 80);
  EXPECT_FALSE(image.ptx);
  EXPECT_EQ(image.architecture, 80);
  EXPECT_EQ(image.version, 13000);
  EXPECT_FALSE(image.code.empty());
}

TEST(Nvrtc, PtxOfTheNewestBeforeAnUnknownOne) {
  const Image newer = compile(kEmpty, 120);
  EXPECT_TRUE(newer.ptx);
  EXPECT_EQ(newer.architecture, 100);
  const Image between = compile(kEmpty, 86);
  EXPECT_TRUE(between.ptx);
  EXPECT_EQ(between.architecture, 80);
  // The driver makes code of PTX for a device that is newer.
  EXPECT_TRUE(device(0).load(compile(kEmpty, 89)));
}

TEST(Nvrtc, ArchitectureThatItNoLongerKnows) {
  expect_error(ErrorKind::architecture, "does not compile for compute capability 7.0; its oldest one is 7.5",
               [] { compile(kEmpty, 70); });
}

TEST(Nvrtc, ErrorsHaveTheLog) {
  expect_error(ErrorKind::compilation, "wrong.cu", [] {
    compile({"wrong.cu", "extern \"C\" __global__ void f(int n) { return undeclared; }", {}, {}}, 90);
  });
  expect_error(ErrorKind::compilation, "undeclared", [] {
    compile({"wrong.cu", "extern \"C\" __global__ void f(int n) { return undeclared; }", {}, {}}, 90);
  });
  expect_error(ErrorKind::compilation, "NVRTC_ERROR_INVALID_OPTION", [] {
    compile({"empty.cu", kEmpty.text, {}, {"nonsense"}}, 90);
  });
}

TEST(Nvrtc, HeadersAndOptions) {
  const Source source{"h.cu",
                      "#include \"a.h\"\n#if N != 3\n#error no\n#endif\nextern \"C\" __global__ void f(T n) {}",
                      {{"a.h", "#include \"b.h\"\n"}, {"b.h", "typedef int T;\n"}},
                      {"-DN=3", "--fmad=false"}};
  EXPECT_FALSE(compile(source, 90).code.empty());
}

}  // namespace
}  // namespace appy::gpu::test
