// Blocks that are kept: who asks next has the pages of the one before.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/pages.h"

namespace appy::runtime {
namespace {

constexpr size_t kMega = size_t{1} << 20;

long faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void touch(const Pages& pages) {
  for (size_t i = 0; i < pages.bytes; i += 4096) pages.at[i] = 1;
}

TEST(Pages, WhatIsGivenBackIsTheNextOnesWithoutFaults) {
  const Pages first = take_pages(64 * kMega);
  ASSERT_NE(first.at, nullptr);
  EXPECT_TRUE(first.cleared);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.at) % (2 * kMega), 0u);
  touch(first);
  give_pages(first.at, first.bytes);
  const Pages second = take_pages(64 * kMega - 5);
  EXPECT_EQ(second.at, first.at);
  EXPECT_FALSE(second.cleared);
  const long before = faults();
  touch(second);
  EXPECT_LT(faults() - before, 16);
  give_pages(second.at, second.bytes);
}

TEST(Pages, ABlockIsForWhatHasMostOfItsSize) {
  const Pages large = take_pages(60 * kMega);
  give_pages(large.at, large.bytes);
  const Pages half = take_pages(30 * kMega), most = take_pages(50 * kMega), more = take_pages(50 * kMega);
  EXPECT_NE(half.at, large.at);
  EXPECT_EQ(most.at, large.at);
  EXPECT_EQ(most.bytes, large.bytes);
  EXPECT_NE(more.at, large.at);
  for (const Pages& each : {half, most, more}) give_pages(each.at, each.bytes);
}

TEST(Pages, FewBlocksAreKept) {
  std::vector<Pages> all;
  for (int i = 0; i < 100; ++i) all.push_back(take_pages(4 * kMega));
  for (const Pages& each : all) give_pages(each.at, each.bytes);
  int again = 0;
  for (Pages& each : all) again += (each = take_pages(4 * kMega)).cleared ? 0 : 1;
  EXPECT_GT(again, 0);
  EXPECT_LE(again, 64);
  for (const Pages& each : all) give_pages(each.at, each.bytes);
}

TEST(Pages, SizesThatNobodyHasAreRefused) {
  EXPECT_EQ(take_pages(SIZE_MAX).at, nullptr);
  EXPECT_EQ(take_pages(SIZE_MAX / 2).at, nullptr);
}

TEST(Pages, AForkedChildTakesSomeWhoeverHadTheLock) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      const Pages pages = take_pages(4 * kMega);
      give_pages(pages.at, pages.bytes);
    }
  });
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(10);  // would wait for ever
      const Pages pages = take_pages(8 * kMega);
      touch(pages);
      give_pages(pages.at, pages.bytes);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

}  // namespace
}  // namespace appy::runtime
