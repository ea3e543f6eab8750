#include <gtest/gtest.h>

#include "pragma/pragma.h"

namespace appy::pragma {
namespace {

int error_column(std::string_view text) {
  try {
    parse(text);
  } catch (const SyntaxError& e) {
    return e.column;
  }
  return -1;
}

TEST(PragmaParse, LoopKinds) {
  auto p = parse("parallel for");
  ASSERT_TRUE(p.loop);
  EXPECT_TRUE(p.loop->parallel);
  EXPECT_FALSE(p.loop->simd);
  EXPECT_TRUE(parse("parallel").loop->parallel);
  EXPECT_TRUE(parse("simd").loop->simd);
  auto both = parse("parallel for simd");
  EXPECT_TRUE(both.loop->parallel && both.loop->simd);
  EXPECT_TRUE(parse("sequential for").loop->sequential);
  auto single = parse("parallel for single");
  EXPECT_TRUE(single.loop->sequential);
  EXPECT_FALSE(single.loop->parallel);
}

TEST(PragmaParse, LinesInARowAreOnePragma) {
  auto p = parse("parallel for\nsimd num_threads(2)");
  EXPECT_TRUE(p.loop->parallel && p.loop->simd);
  EXPECT_EQ(p.loop->threads.value, 2);
}

TEST(PragmaParse, Clauses) {
  auto p = parse(
      "simd reduction(+: s, t) reduction(max:m) shared(a , b) private(c) collapse(2) "
      "schedule( dynamic , n*2 ) block(64) le(n + 1)");
  const LoopPragma& l = *p.loop;
  ASSERT_EQ(l.reductions.size(), 2u);
  EXPECT_EQ(l.reductions[0].op, "sum");
  EXPECT_EQ(l.reductions[0].names, (std::vector<std::string>{"s", "t"}));
  EXPECT_EQ(l.reductions[1].op, "max");
  EXPECT_EQ(l.shared, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(l.private_, (std::vector<std::string>{"c"}));
  EXPECT_EQ(l.collapse.value, 2);
  EXPECT_EQ(l.schedule, LoopPragma::Schedule::dynamic);
  EXPECT_EQ(l.chunk.text, "n*2");
  EXPECT_EQ(l.block.value, 64);
  EXPECT_EQ(l.le.text, "n + 1");
}

TEST(PragmaParse, Atomic) {
  EXPECT_TRUE(parse("atomic").atomic);
  auto p = parse("atomic :n=>le(128)");
  EXPECT_TRUE(p.atomic);
  ASSERT_EQ(p.items.size(), 1u);
  EXPECT_EQ(p.items[0].dim, ":n");
  EXPECT_EQ(p.items[0].le->value, 128);
}

TEST(PragmaParse, TensorItems) {
  auto p = parse("1 : M-1 => parallel, block(2)  m=:N=>reduction(sum:s) 2=>simd in_dim=>le,in_reg");
  ASSERT_EQ(p.items.size(), 4u);
  EXPECT_EQ(p.items[0].dim, "1:M-1");
  EXPECT_TRUE(p.items[0].parallel);
  EXPECT_EQ(p.items[0].block->value, 2);
  EXPECT_EQ(p.items[1].dim, ":N");
  EXPECT_EQ(p.items[1].reductions.at(0).op, "sum");
  EXPECT_EQ(p.items[1].reductions.at(0).target, "s");
  EXPECT_EQ(p.items[1].text, "m=:N=>reduction(sum:s)");
  EXPECT_EQ(p.items[2].dim, "2");
  EXPECT_TRUE(p.items[2].simd);
  EXPECT_TRUE(p.items[3].le && p.items[3].in_reg);
}

TEST(PragmaParse, APropertyIsNoSliceOfTheNextItem) {
  auto p = parse(":M=>parallel,in_reg :N=>simd,block :K=>le");
  ASSERT_EQ(p.items.size(), 3u);
  EXPECT_TRUE(p.items[0].in_reg);
  EXPECT_EQ(p.items[1].dim, ":N");
  EXPECT_EQ(p.items[2].dim, ":K");
  p = parse(":M=>parallel, block:n=>simd, le:n=>parallel");
  ASSERT_EQ(p.items.size(), 3u);
  EXPECT_EQ(p.items[1].dim, "block:n");
  EXPECT_EQ(p.items[2].dim, "le:n");
}

TEST(PragmaParse, TheOlderDialect) {
  auto p = parse(":M=>block(BM), reduce(max:m,+:s) :N=>block");
  ASSERT_EQ(p.items.size(), 2u);
  EXPECT_EQ(p.items[0].block->text, "BM");
  ASSERT_EQ(p.items[0].reductions.size(), 2u);
  EXPECT_EQ(p.items[0].reductions[1].op, "sum");
  EXPECT_EQ(p.items[0].reductions[1].target, "s");
  EXPECT_TRUE(p.items[1].simd);
  EXPECT_FALSE(p.items[1].parallel);
}

TEST(PragmaParse, CommaBetweenItems) {
  auto p = parse(":M=>parallel, :N=>simd");
  ASSERT_EQ(p.items.size(), 2u);
  EXPECT_TRUE(p.items[1].simd);
}

TEST(PragmaParse, ErrorsNameTheColumn) {
  EXPECT_EQ(error_column(""), 0);
  EXPECT_EQ(error_column("paralel for"), 0);
  EXPECT_EQ(error_column("parallel for sidm"), 13);
  EXPECT_EQ(error_column("simd le"), 7);
  EXPECT_EQ(error_column("simd reduction(avg: s)"), 15);
  EXPECT_EQ(error_column("simd reduction(sum s)"), 19);
  EXPECT_EQ(error_column("parallel for num_threads()"), 25);
  EXPECT_EQ(error_column("parallel for num_threads(0)"), 25);
  EXPECT_EQ(error_column("parallel for num_threads(n;2)"), 26);
  EXPECT_EQ(error_column("parallel for schedule(fair)"), 22);
  EXPECT_EQ(error_column(":M=>fast"), 4);
  EXPECT_EQ(error_column("for"), 0);
  EXPECT_EQ(error_column("parallel for atomic"), 0);
  EXPECT_EQ(error_column("parallel for shared(a"), 21);
}

}  // namespace
}  // namespace appy::pragma
