#include <fstream>
#include <sstream>
#include <thread>

#include "gpu/cache.h"
#include "gpu_emulator.h"
#include "support/disk_cache.h"

namespace appy::gpu::test {
namespace {

namespace fs = std::filesystem;

const bool ready = use_emulator();
const Source kSource{"k.cu", "extern \"C\" __global__ void k(const int n) {}", {{"h.h", "int h;"}}, {"--fmad=false"}};
const std::string kCompiler = "compiler 1";

class Cache : public testing::Test {
 protected:
  Cache() : variable_("APPY_CACHE_DIR", root_) {
    image_.code = std::string("code\0with a zero", 16);
    image_.architecture = 90;
    image_.version = 13000;
    image_.log = "a warning";
  }
  ~Cache() override { fs::remove_all(root_); }

  fs::path folder() const { return fs::path(root_) / "kernels"; }
  fs::path only_file() const {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(folder())) {
      EXPECT_TRUE(found.empty()) << found << " and " << entry.path();
      found = entry.path();
    }
    return found;
  }
  std::optional<Image> load() const { return load_image(kSource, 90, kCompiler); }
  bool store() const { return store_image(kSource, 90, kCompiler, image_); }

  std::string root_ = temporary_folder();
  Variable variable_;
  Image image_;
};

TEST_F(Cache, WhatIsStoredIsLoaded) {
  EXPECT_FALSE(load());
  EXPECT_FALSE(fs::exists(folder()));  // looking makes nothing
  ASSERT_TRUE(store());
  const std::optional<Image> found = load();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code, image_.code);
  EXPECT_EQ(found->log, image_.log);
  EXPECT_EQ(found->architecture, 90);
  EXPECT_EQ(found->version, 13000);
  EXPECT_FALSE(found->ptx);
  struct stat info;
  ASSERT_EQ(stat(only_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(Cache, EveryInputIsPartOfTheKey) {
  ASSERT_TRUE(store());
  Source other = kSource;
  EXPECT_FALSE(load_image(kSource, 80, kCompiler));
  EXPECT_FALSE(load_image(kSource, 90, "compiler 2"));
  other.text += " ";
  EXPECT_FALSE(load_image(other, 90, kCompiler));
  other = kSource;
  other.headers[0].text = "int i;";
  EXPECT_FALSE(load_image(other, 90, kCompiler));
  other = kSource;
  other.headers[0].name = "i.h";
  EXPECT_FALSE(load_image(other, 90, kCompiler));
  other = kSource;
  other.options.clear();
  EXPECT_FALSE(load_image(other, 90, kCompiler));
  other = kSource;
  other.name = "l.cu";
  EXPECT_FALSE(load_image(other, 90, kCompiler));
}

/// Another source's file under this one's name, as if their hashes were equal.
TEST_F(Cache, TextsAreComparedNotOnlyHashes) {
  ASSERT_TRUE(store());
  const fs::path ours = only_file(), aside = fs::path(root_) / "aside";
  fs::rename(ours, aside);
  Source other = kSource;
  other.text[other.text.size() - 2] = ';';
  ASSERT_TRUE(store_image(other, 90, kCompiler, image_));
  fs::rename(only_file(), ours);
  EXPECT_FALSE(load());
  fs::rename(aside, ours);
  EXPECT_TRUE(load());
}

TEST_F(Cache, DamagedFilesAreMisses) {
  ASSERT_TRUE(store());
  const fs::path file = only_file();
  std::ifstream in(file, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto write = [&](const std::string& text) { std::ofstream(file, std::ios::binary | std::ios::trunc) << text; };
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    write(changed);
    ASSERT_FALSE(load()) << "byte " << at;
  }
  for (size_t length = 0; length < whole.size(); ++length) {
    write(whole.substr(0, length));
    ASSERT_FALSE(load()) << length << " bytes";
  }
  write(whole + "x");
  EXPECT_FALSE(load());
  write(whole);
  EXPECT_TRUE(load());
}

TEST_F(Cache, FilesThatOthersMayWriteAreNotRead) {
  ASSERT_TRUE(store());
  chmod(only_file().c_str(), 0620);
  EXPECT_FALSE(load());
  chmod(only_file().c_str(), 0600);
  EXPECT_TRUE(load());
  // A link may lead to somebody else's file.
  const fs::path file = only_file(), target = fs::path(root_) / "target";
  fs::rename(file, target);
  fs::create_symlink(target, file);
  EXPECT_FALSE(load());
}

TEST_F(Cache, FoldersThatOthersMayWriteAreNotUsed) {
  ASSERT_TRUE(store());
  chmod(folder().c_str(), 0777);
  EXPECT_FALSE(load());
  EXPECT_FALSE(store());
  EXPECT_EQ(cache_state().problem, "others may write to it");
  chmod(folder().c_str(), 0755);
  EXPECT_TRUE(load());
  EXPECT_EQ(cache_state().problem, "");
  EXPECT_EQ(cache_state().files, 1);
  EXPECT_GT(cache_state().bytes, 16);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder().c_str(), 12345, 12345), 0);
    EXPECT_FALSE(load());
    EXPECT_FALSE(store());
    EXPECT_EQ(cache_state().problem, "it belongs to another user");
  }
}

TEST_F(Cache, FoldersThatCannotBeMade) {
  std::ofstream(fs::path(root_) / "kernels") << "a file";
  EXPECT_FALSE(store());
  EXPECT_FALSE(load());
  EXPECT_NE(cache_state().problem, "");
}

TEST_F(Cache, WarmKernelsAreNotCompiled) {
  bool hit = true;
  const Image first = cached_compile(kSource, 90, &hit);
  EXPECT_FALSE(hit);
  const Image second = cached_compile(kSource, 90, &hit);
  EXPECT_TRUE(hit);
  EXPECT_EQ(first.code, second.code);
  EXPECT_TRUE(device(0).load(second));
}

TEST_F(Cache, SeveralWriters) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        if (!store()) ++wrong;
        const std::optional<Image> found = load();
        if (!found || found->code != image_.code) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  only_file();
}

TEST_F(Cache, HomeFolderWithoutTheVariable) {
  const Variable none("APPY_CACHE_DIR", ""), xdg("XDG_CACHE_HOME", root_ + "/xdg");
  EXPECT_EQ(cache_state().folder, root_ + "/xdg/appy/kernels");
  EXPECT_TRUE(store());
  EXPECT_TRUE(load());
  const Variable no_xdg("XDG_CACHE_HOME", ""), home("HOME", root_);
  EXPECT_EQ(cache_state().folder, root_ + "/.cache/appy/kernels");
}

}  // namespace
}  // namespace appy::gpu::test
