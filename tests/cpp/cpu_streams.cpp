// Stores around the caches: which stores qualify, what the code looks like, and that it stores the same.
#include "cpu/streams.h"
#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

/// A loop over n elements of x that stores to o, with these ops between; `attributes` of the loop.
std::string over(const std::string& body, const std::string& type = "f64", const std::string& attributes = "simd") {
  return "region @r(%n: i64, %x: " + type + "[1,c], %o: " + type + "[1,c], %p: " + type +
         "[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  for " + attributes +
         " %i = %zero to %n step %one {\n    %v = load %x[%i] : " + type + "\n" + body + "    yield\n  }\n  yield\n}\n";
}

/// Rows of a[m, n] stored to o[m, n].
std::string rows(const std::string& row, const std::string& after = "", const std::string& attributes = "parallel") {
  return "region @r(%m: i64, %n: i64, %a: f64[2,c], %o: f64[2,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
         "  for " +
         attributes + " %i = %zero to %m step %one {\n    for simd %j = %zero to %n step %one {\n" + row +
         "      yield\n    }\n" + after + "    yield\n  }\n  yield\n}\n";
}

bool streams(const std::string& text, Isa isa, int64_t least = 0) {
  auto graph = ir::parse(text);
  EXPECT_EQ(ir::verify(*graph), "") << text;
  return code_of(*graph, isa, least)->listing().find("vmovnt") != std::string::npos;
}

Stream stream_of(const ir::Graph& graph) {
  const std::vector<const ir::Op*> accesses = accesses_of(graph);
  Stream found;
  ir::walk(*graph.body, [&](ir::Op& op) {
    if (op.code != ir::Opcode::for_ || !op.loop->simd) return;
    Stream stream = find_stream(graph, accesses, op);
    if (!stream.stores.empty()) found = std::move(stream);
  });
  return found;
}

/// The array at `offset` elements of its memory.
Arg at_offset(Arg array, size_t offset, size_t size) {
  array.bytes.insert(array.bytes.begin(), offset * size, 0x3c);
  array.bytes.resize(array.bytes.size() + 64, 0x3c);
  array.origin += offset * size;
  return array;
}

TEST(Streams, WholeVectorsOfEveryType) {
  const std::pair<const char*, const char*> moves[] = {{"f64", "vmovntpd"}, {"f32", "vmovntps"}, {"i64", "vmovntdq"},
                                                       {"i32", "vmovntdq"}, {"i16", "vmovntdq"}, {"u8", "vmovntdq"}};
  for (Isa isa : isas()) {
    for (auto [type, move] : moves) {
      const std::string t = type;
      auto graph = ir::parse(over("    %w = add %v, %v : " + t + "\n    store %w, %o[%i]\n", t));
      const std::string listing = code_of(*graph, isa, 0)->listing();
      EXPECT_NE(listing.find(move), std::string::npos) << type << listing;
      EXPECT_NE(listing.find("sfence"), std::string::npos) << type << listing;
    }
  }
}

TEST(Streams, OnlyWhereTheyQualify) {
  const std::string stored = "    store %v, %o[%i]\n";
  for (Isa isa : isas()) {
    EXPECT_TRUE(streams(over(stored), isa));
    EXPECT_TRUE(streams(over(stored, "f64", "parallel simd"), isa));
    EXPECT_FALSE(streams(over("    store %v, %x[%i]\n"), isa)) << "in place";
    EXPECT_FALSE(streams(over("    %w = load %o[%i + 1] : f64\n    store %w, %o[%i]\n"), isa)) << "read beside it";
    EXPECT_FALSE(streams(over("    store %v, %o[2*%i]\n"), isa)) << "strided";
    EXPECT_FALSE(streams(over("    store %v, %o[-1*%i + 100]\n"), isa)) << "downwards";
    EXPECT_FALSE(streams(over(stored, "bool"), isa)) << "not elements of the vector's own";
    EXPECT_FALSE(streams(over("    %c = lt %v, %v : bool\n    if %c {\n    store %v, %o[%i]\n    yield\n    } else {\n"
                              "    yield\n    }\n"),
                         isa))
        << "under a mask";
    std::string overlapping = over(stored);
    overlapping.replace(overlapping.find(") {"), 3, ") may_alias {");
    EXPECT_FALSE(streams(overlapping, isa));
    std::string last = over(stored);
    last.replace(last.rfind("  yield"), 7, "  %e = load %o[%zero] : f64\n  store %e, %p[%zero]\n  yield");
    EXPECT_TRUE(streams(last, isa)) << "read after the loop";
    const std::string row = "      %v = load %a[%i, %j] : f64\n      store %v, %o[%i, %j]\n";
    EXPECT_TRUE(streams(rows(row), isa));
    EXPECT_TRUE(streams(rows(row, "", "annotated"), isa));
    EXPECT_FALSE(streams(rows(row, "    %e = load %o[%i, %zero] : f64\n    store %e, %a[%i, %zero]\n"), isa))
        << "the row is read at once";
    EXPECT_FALSE(streams(rows("      %v = load %o[%zero, %j] : f64\n      store %v, %o[%i, %j]\n"), isa));
  }
}

TEST(Streams, CountsBytes) {
  auto bytes = [](const std::string& text) { return stream_of(*ir::parse(text)).bytes; };
  EXPECT_EQ(bytes(over("    store %v, %o[%i]\n")), 16);
  EXPECT_EQ(bytes(over("    %w = load %x[%i + 1] : f64\n    %s = add %v, %w : f64\n    store %s, %o[%i]\n")), 16)
      << "an array counts once";
  EXPECT_EQ(bytes(over("    %w = load %p[%i] : f64\n    %s = add %v, %w : f64\n    store %s, %o[%i]\n")), 24);
  EXPECT_EQ(bytes(over("    store %v, %o[%i]\n    store %v, %p[%i]\n")), 24);
  EXPECT_EQ(bytes(over("    store %v, %o[%i]\n", "f32")), 8);
  // Where what was stored is read again, the loads beside it do not count.
  std::string read = over("    store %v, %o[%i]\n");
  read.replace(read.rfind("  yield"), 7, "  %e = load %o[%zero] : f64\n  store %e, %p[%zero]\n  yield");
  EXPECT_EQ(bytes(read), 8);
  // A row that every iteration reads is in the cache.
  auto graph = ir::parse(rows("      %v = load %a[%zero, %j] : f64\n      store %v, %o[%i, %j]\n"));
  EXPECT_EQ(stream_of(*graph).bytes, 8);
  EXPECT_EQ(stream_of(*graph).loops.size(), 2U);
  // Repeating a loop does not make it longer.
  graph = ir::parse(rows("      %v = load %a[%i, %j] : f64\n      store %v, %o[%zero, %j]\n", "", "simd"));
  EXPECT_EQ(stream_of(*graph).loops.size(), 1U);
}

TEST(Streams, BoundsThatAreKnownDecideAtOnce) {
  std::string text = over("    store %v, %o[%i]\n");
  text.replace(text.find("  for"), 5, "  %many = const 100000 : i64\n  for");
  text.replace(text.find("to %n"), 5, "to %many");
  for (Isa isa : isas()) {
    EXPECT_TRUE(streams(text, isa, 1'599'999));
    EXPECT_FALSE(streams(text, isa, 1'600'000));
    EXPECT_EQ(streams(text, isa, -1), last_level_cache() < 1'600'000);
  }
  EXPECT_GE(last_level_cache(), 1 << 18);
}

TEST(Streams, OneVectorOfEachArrayAtATime) {
  auto stores = [](int operations, Isa isa) {
    std::string body, last = "%v";
    for (int k = 0; k < operations; ++k) {
      const std::string next = "%w" + std::to_string(k);
      body += "    " + next + " = add " + last + ", %v : f64\n";
      last = next;
    }
    const std::string listing = code_of(*ir::parse(over(body + "    store " + last + ", %o[%i]\n")), isa, 0)->listing();
    int found = 0;
    for (size_t at = 0; (at = listing.find("vmovntpd", at)) != std::string::npos; ++at) ++found;
    return found;
  };
  for (Isa isa : isas()) {
    EXPECT_EQ(stores(4, isa), 1) << "waits for memory";
    EXPECT_EQ(stores(40, isa), 2) << "two chains of operations overlap";
  }
}

TEST(Streams, StoresTheSame) {
  for (const char* attributes : {"simd", "parallel simd"}) {
    const std::string two =
        over("    %w = add %v, %v : f64\n    store %w, %o[%i]\n    store %v, %p[%i]\n", "f64", attributes);
    for (size_t offset = 0; offset < 9; ++offset) {
      for (size_t n : {0, 1, 15, 16, 63, 64, 65, 127, 300, 1031}) {
        const Arg x = array_arg(counting<double>(n)), o = at_offset(x, offset, 8), p = at_offset(x, 3, 8);
        for (int64_t least : {int64_t{0}, static_cast<int64_t>(24 * n), int64_t{-1}}) {
          expect_same(two, {scalar_arg(n), x, o, p}, 0, 3, least);
        }
      }
    }
  }
  for (const char* type : {"f32", "i16"}) {
    const std::string t = type;
    const std::string text = over("    %w = add %v, %v : " + t + "\n    store %w, %o[%i]\n", t);
    for (size_t offset = 0; offset < 40; offset += 3) {
      for (size_t n : {200, 777}) {
        const bool real = t == "f32";
        const Arg x = real ? array_arg(counting<float>(n)) : array_arg(counting<int16_t>(n));
        expect_same(text, {scalar_arg(n), x, at_offset(x, offset, real ? 4 : 2), x}, 0, 1, 0);
      }
    }
  }
}

TEST(Streams, RowsOfAnyLength) {
  const std::string text =
      rows("      %v = load %a[%i, %j] : f64\n      %w = add %v, %v : f64\n      store %w, %o[%i, %j]\n");
  for (int64_t n : {1, 64, 129, 131, 256}) {
    for (int64_t m : {1, 2, 9}) {
      const Arg a = array_arg(counting<double>(static_cast<size_t>(m * n)), {m, n});
      for (size_t offset : {0, 1, 7}) {
        for (int64_t least : {int64_t{0}, 16 * m * n - 1, 16 * m * n}) {
          expect_same(text, {scalar_arg(word(m)), scalar_arg(word(n)), a, at_offset(a, offset, 8)}, 0, 2, least);
        }
      }
    }
  }
}

TEST(Streams, ALaterLoopReadsThem) {
  // One thread writes, several read.
  std::string text = over("    %w = add %v, %v : f64\n    store %w, %o[%i]\n");
  text.replace(text.rfind("  yield"), 7,
               "  for parallel simd %k = %zero to %n step %one {\n    %e = load %o[%k] : f64\n    store %e, %p[%k]\n"
               "    yield\n  }\n  yield");
  const Arg x = array_arg(counting<double>(50'000));
  expect_same(text, {scalar_arg(50'000), x, x, x}, 0, 4, 0);
}

}  // namespace
}  // namespace appy::cpu::testing
