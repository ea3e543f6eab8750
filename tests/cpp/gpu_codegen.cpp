// The text of kernels by its telling lines, and what the host computes for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "gpu/codegen.h"
#include "gpu/host_part.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace appy::gpu {
namespace {

std::unique_ptr<ir::Graph> graph_of(const std::string& parameters, const std::string& body) {
  auto graph = ir::parse("region @kernel(" + parameters +
                         ") {\n%zero = const 0 : i64\n%one = const 1 : i64\n%half = const 0.5 : f64\n" + body + "}\n");
  for (const char* name : {"distribute", "barriers"}) passes::find(name)->run(*graph);
  EXPECT_EQ(ir::verify(*graph), "") << ir::print(*graph);
  return graph;
}

KernelCode code_of(const ir::Graph& graph, int unroll = 1) {
  CodegenOptions options;
  options.shape.unroll = unroll;
  options.results.assign(graph.body->last->operands.size(), true);
  return generate(graph, options);
}

/// The lines stand in the text in this order.
void expect_lines(const KernelCode& code, const std::vector<std::string>& lines) {
  size_t at = 0;
  for (const std::string& line : lines) {
    const size_t found = code.text.find(line, at);
    ASSERT_NE(found, std::string::npos) << "no '" << line << "' behind character " << at << " of\n" << code.text;
    at = found + line.size();
  }
}

constexpr const char* kTwo = "%x: f64[1,c], %y: f64[1,c]";
constexpr const char* kSum =
    "%s = for simd annotated %j = %zero to %m step %one carry(sum %a = %half) : f64 {\n"
    "%v = load %x[%i, %j] : f64\n%b = add %a, %v : f64\nyield %b\n}\n";

TEST(Codegen, OneLoopForAllThreads) {
  const auto graph = graph_of(kTwo, R"(%n = dim 0 %x : i64
    for parallel annotated %i = %zero to %n step %one {
      %v = load %x[%i] : f64
      %w = mul %v, %half : f64
      store %w, %y[%i]
      yield
    }
    yield
  )");
  const KernelCode code = code_of(*graph);
  EXPECT_EQ(code.entry, "appy_kernel");
  EXPECT_FALSE(code.meets);
  EXPECT_FALSE(code.checks);
  EXPECT_EQ(code.partial_bytes, 0u);
  expect_lines(
      code,
      {"#include \"appy_device.h\"", "extern \"C\" __global__ void __launch_bounds__(kBlock) appy_kernel(",
       "const double* const __restrict__ x", "double* const __restrict__ y", "team.thread", "team.threads", " * 0.5;"});
  EXPECT_EQ(code.text.find("const double* const __restrict__ y"), std::string::npos) << "y is written";
}

TEST(Codegen, SeveralIterationsAtOnce) {
  const auto graph = graph_of(kTwo, R"(%n = dim 0 %x : i64
    %s = for parallel annotated %i = %zero to %n step %one carry(sum %a = %half) : f64 {
      %v = load %x[%i] : f64
      %w = mul %v, %half : f64
      %b = add %a, %w : f64
      yield %b
    }
    yield %s
  )");
  const KernelCode code = code_of(*graph, 2);
  // Loads stand side by side, and the sum takes the iterations in order.
  expect_lines(code, {"- (kUnroll - 1) * team.threads; ", "+= kUnroll * team.threads", " = x[", " = x[", " * 0.5;",
                      " * 0.5;", " + ", "a = ", " + ", "a = ", "+= team.threads", " = x[", "a = "});
}

TEST(Codegen, WhatIsStoredOneAfterTheOtherIsNotReadBefore) {
  const auto graph = graph_of(kTwo, R"(%n = dim 0 %x : i64
    %s = for parallel annotated %i = %zero to %n step %one carry(sum %a = %half) : f64 {
      %v = load %x[%i] : f64
      %b = add %a, %v : f64
      store %b, %y[%i]
      %w = load %y[%i] : f64
      store %w, %x[%i]
      yield %b
    }
    yield %s
  )");
  EXPECT_EQ(code_of(*graph, 2).text.find("kUnroll *"), std::string::npos);
}

TEST(Codegen, NeighbouringRowsAtOnce) {
  const auto graph = graph_of("%x: f64[2,c], %y: f64[2,c], %u: f64[1,c]", R"(%n = dim 0 %x : i64
    %m = dim 1 %x : i64
    for parallel annotated %i = %zero to %n step %one {
      %a = load %u[%i] : f64
      for simd annotated %j = %zero to %m step %one {
        %v = load %x[%i, %j] : f64
        %b = mul %v, %a : f64
        store %b, %y[%i, %j]
        yield
      }
      yield
    }
    yield
  )");
  const KernelCode code = code_of(*graph, 3);
  expect_lines(code, {"+ 2) / 3;", "plane_of<kBlock>",
                      " * 3;",     "if (first_0 + 3 <= n_0) {",
                      " + 1)",     " + 2)",
                      " = u[",     " = u[",
                      " = u[",     ".x_step",
                      " = x[",     " = x[",
                      " = x[",     "y[",
                      "y[",        "y[",
                      "} else {",  "_Pragma(\"unroll 1\") for (i64 k_0 = first_0; k_0 < n_0; ++k_0) {",
                      " = u[",     ".x_step",
                      " = x["});
}

/// A star of five points, and a third array.
std::unique_ptr<ir::Graph> star(const std::string& more, const std::string& step = "%one") {
  return graph_of("%x: f64[3,c], %y: f64[3,c], %z: f64[3,c]", R"(%two = const 2 : i64
    %n = dim 0 %x : i64
    %m = dim 1 %x : i64
    %l = dim 2 %x : i64
    for parallel annotated %i = %one to %n step )" + step + R"( {
      for parallel annotated %j = %one to %m step %one {
        for simd annotated %k = %zero to %l step %one {
          %a = load %x[%i - 1, %j, %k] : f64
          %b = load %x[%i, %j, %k] : f64
          %c = load %x[%i + 1, %j, %k] : f64
          %d = load %x[%i, %j - 1, %k] : f64
          %e = load %x[%i, %j + 1, %k] : f64
          %up = sub %c, %b : f64
          %down = sub %b, %a : f64
          %s = sub %up, %down : f64
          %t = add %s, %d : f64
          %u = sub %t, %e : f64
          )" + more + R"(
          yield
        }
        yield
      }
      yield
    }
    yield
  )");
}

KernelCode marching(const ir::Graph& graph, int unroll = 2) {
  CodegenOptions options;
  options.shape.unroll = unroll;
  options.shape.march = true;
  return generate(graph, options);
}

TEST(Codegen, StepsKeepWhatTheNextOneNeeds) {
  const KernelCode code = marching(*star("store %u, %y[%i, %j, %k]"));
  ASSERT_EQ(code.marches.size(), 1u);
  // Three rows: two of what unroll says, and one as no row is read along. They and one at each side of row i; row i
  // + 1.
  EXPECT_EQ(code.marches[0].rows, 3);
  EXPECT_EQ(code.marches[0].loads_alone, 11);
  EXPECT_EQ(code.marches[0].loads, 5);
  EXPECT_EQ(code.marches[0].kept, 6);  // row i and the differences to it
  const std::string steps = "_Pragma(\"unroll 1\") for (; k_0 < end_0; ++k_0) {";
  expect_lines(code, {"march_of<kBlock>(",
                      "while (march_0.at < march_0.end) {",
                      "next_column<kBlock>(march_0, ",
                      "if (first_0 + 3 <= ",
                      "double kept_5;",
                      "kept_0 = b;",
                      "kept_3 = down;",
                      steps,
                      " = x[",
                      " - kept_",
                      "y[",
                      "y[",
                      "y[",
                      "kept_0 = c;",
                      "kept_3 = up;",
                      "kept_5 = up_1;",
                      "} else {",
                      steps,
                      "for (i64 r_0 = first_0; ",
                      " = x[",
                      "y["});
  const size_t loop = code.text.find("for (; k_0 < end_0"), rest = code.text.find("} else {", loop);
  size_t loads = 0;
  for (size_t at = code.text.find(" = x[", loop); at < rest; at = code.text.find(" = x[", at + 1)) ++loads;
  EXPECT_EQ(loads, 5u) << code.text;
}

TEST(Codegen, StepsThatKeepTooLittle) {
  const auto marches = [](const ir::Graph& graph, int unroll = 2) { return marching(graph, unroll).marches.size(); };
  EXPECT_EQ(marches(*star("store %u, %y[%i, %j, %k]")), 1u);
  // What is written is loaded again, whoever has written it.
  EXPECT_EQ(marches(*star("store %u, %x[%i, %j, %k]")), 0u);
  // Steps of two share one row of three, and no difference.
  EXPECT_EQ(marches(*star("store %u, %y[%i, %j, %k]", "%two")), 0u);
  // Where arrays overlap each load stays.
  const auto overlapping = star("store %u, %y[%i, %j, %k]");
  overlapping->may_alias = true;
  EXPECT_EQ(marches(*overlapping), 0u);
  // A check may end it.
  EXPECT_EQ(marches(*star("%ok = lt %i, %j : bool\ncheck bounds %ok info(%i, %j, %n)\nstore %u, %y[%i, %j, %k]")), 0u);
  // More than there are registers for.
  EXPECT_EQ(marches(*star("store %u, %y[%i, %j, %k]"), 14), 1u);
  EXPECT_EQ(marches(*star("store %u, %y[%i, %j, %k]"), 16), 0u);
}

TEST(Codegen, LoopsOfFewIterationsStayLoops) {
  const auto graph = graph_of(kTwo, R"(%n = dim 0 %x : i64
    for parallel annotated %i = %zero to %n step %one {
      %v = load %x[%i] : f64
      %w = mul %v, %half : f64
      store %w, %y[%i]
      yield
    }
    yield
  )");
  const std::string rest = "_Pragma(\"unroll 1\") for (; k_0 < n_0; k_0 += team.threads) {";
  expect_lines(code_of(*graph, 1), {"i64 k_0 = team.thread;\n  " + rest});
  // So does the one that has several iterations at once: the compiler would have four times as many.
  expect_lines(code_of(*graph, 4),
               {"i64 k_0 = team.thread;\n  _Pragma(\"unroll 1\") for (; k_0 < n_0 - ", "\n  " + rest});
}

TEST(Codegen, LinesOfTheSource) {
  auto graph = graph_of(kTwo, R"(%n = dim 0 %x : i64
    for parallel annotated %i = %zero to %n step %one {
      %v = load %x[%i] : f64
      %w = mul %v, %half : f64
      store %w, %y[%i]
      yield
    }
    yield
  )");
  graph->locs.push_back({"dir/\"f\".py", 12});
  graph->locs.push_back({"dir/\"f\".py", 13});
  ir::walk(*graph->body,
           [&](ir::Op& op) { op.loc = op.code == ir::Opcode::store_ || op.code == ir::Opcode::mul_ ? 2 : 1; });
  CodegenOptions options;
  options.source_line = [](const std::string&, int line) {
    return line == 13 ? "    y[i] = x[i] / 2  # \\ \\\f\n" : std::string();
  };
  const KernelCode code = generate(*graph, options);
  expect_lines(
      code, {"// 12\n#line 12 \"dir/\\\"f\\\".py\"\n", "// 13: y[i] = x[i] / 2  #\n#line 13 \"dir/\\\"f\\\".py\"\n"});
  // Lines count on behind a #line: for the compiler there is one before each.
  const std::string said = with_each_line(code.text);
  int line = 0;
  std::map<int, std::string> at;
  size_t begin = 0;
  for (size_t end; (end = said.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string text = said.substr(begin, end - begin);
    if (text.starts_with("#line ")) {
      line = std::stoi(text.substr(6)) - 1;
    } else if (line > 0 || !at.empty()) {
      at[++line] += text + "\n";
    }
  }
  for (const auto& [number, text] : at) {
    if (text.find("//") == std::string::npos) {
      EXPECT_TRUE(number == 12 || number == 13) << number << " " << text;
    }
  }
  EXPECT_NE(at[13].find(" * 0.5"), std::string::npos);
  EXPECT_EQ(at[12].find(" * 0.5"), std::string::npos);
  // What tuning knows a kernel by.
  const std::string same = without_lines(code.text);
  EXPECT_EQ(same.find("13"), std::string::npos);
  graph->locs[2].line = 99;
  EXPECT_EQ(without_lines(generate(*graph, options).text), same);
  EXPECT_NE(generate(*graph, options).text, code.text);
}

TEST(Codegen, StoresOfWhatWasThereAreLeftOut) {
  const auto code = [](const std::string& between) {
    return code_of(*graph_of(kTwo, R"(%n = dim 0 %x : i64
      for parallel annotated %i = %zero to %n step %one {
        %v = load %x[%i] : f64
        %w = pymin %half, %v : f64
        )" + between + R"(store %w, %x[%i]
        yield
      }
      yield
    )"));
  };
  // By their bits: a zero of the other sign is stored.
  expect_lines(code(""), {" = x[", "if (word_of(w) != word_of(v)) {", "x[", "}"});
  EXPECT_EQ(code("store %half, %x[%i]\n").text.find("word_of(w)"), std::string::npos);
}

/// A nest over all of %x, with these accesses.
std::string plane(const std::string& body) {
  return "for parallel annotated %i = %zero to %n step %one {\nfor simd annotated %j = %zero to %m step %one {\n" +
         body + "yield\n}\nyield\n}\n";
}
constexpr const char* kExtents = "%n = dim 0 %x : i64\n%m = dim 1 %x : i64\n";

TEST(Codegen, PlaneOfTwoLoops) {
  const auto graph = graph_of("%x: f64[2,c]", kExtents + plane("store %half, %x[%j, %i]\n") + "yield\n");
  const KernelCode code = code_of(*graph);
  expect_lines(code, {"plane_of<kBlock>", ".y_step", ".x_step"});
  EXPECT_FALSE(code.meets);
}

TEST(Codegen, WholeRowsAreOneRow) {
  const std::string twice = "%v = load %x[%i, %j] : f64\n%w = mul %v, %half : f64\nstore %w, ";
  const auto code = [](const std::string& parameters, const std::string& body) {
    CodegenOptions options;
    options.shape.unroll = 4;
    options.shape.piece = 16;
    return generate(*graph_of(parameters, kExtents + body + "yield\n"), options);
  };
  // Of one array: a row of n * m elements, of which only the first has to be aligned.
  const KernelCode one = code("%x: f64[2,c]", plane(twice + "%x[%i, %j]\n"));
  expect_lines(one, {"const bool aligned_pieces = (((u64)x) & 15) == 0;", "const i64 i = 0;",
                     "const i64 n_2 = n_0 * n_1;", "if (aligned_pieces)", "< n_2", "+= kUnroll * team.threads"});
  EXPECT_EQ(one.text.find("plane_of"), std::string::npos) << one.text;
  // Where rows are as long as the loop.
  const std::string two = "%x: f64[2,c], %y: f64[2,c], %u: f64[1,c]";
  expect_lines(code(two, plane(twice + "%y[%i, %j]\n")),
               {"((u64)y | (y_n1 == x_n1 ? 0 : (u64)(y_n1) * 8)) & 15) == 0;", "const bool flat_0 = y_n1 == x_n1;",
                "const i64 n_2 = flat_0 ? n_1 * n_0 : n_1;", "const i64 n_3 = flat_0 ? 1 : n_0;", "plane_of<kBlock>"});
  // The length may be a number that the region is given, but none of a loop around.
  const std::string
      number = "%k: i64, %x: f64[2,c]",
      width =
          "for parallel annotated %i = %zero to %n step %one {\n"
          "for simd annotated %j = %zero to %k step %one {\nstore %half, %x[%i, %j]\nyield\n}\nyield\n}\n";
  expect_lines(code(number, width), {"const bool flat_0 = x_n1 == k;"});
  const KernelCode inside = code("%x: f64[2,c]", "for annotated %k = %zero to %m step %one {\n" + width + "yield\n}\n");
  EXPECT_EQ(inside.text.find("flat_0"), std::string::npos) << inside.text;
  // What all iterations read, or what one of them has at its number.
  const std::string first = "%e = load %u[%zero] : f64\n", scaled = "%s = mul %e, %half : f64\nstore %s, %x[%i, %j]\n";
  expect_lines(code(two, plane(first + scaled)), {"const i64 i = 0;"});
  const auto is_plane = [&](const std::string& body) {
    const std::string text = code(two, body).text;
    return text.find("plane_of<kBlock>") != std::string::npos && text.find("flat_0") == std::string::npos;
  };
  EXPECT_FALSE(is_plane(plane(twice + "%y[%i, %j]\n")));
  EXPECT_TRUE(is_plane(plane("%e = load %u[%j] : f64\n" + scaled)));
  EXPECT_TRUE(is_plane(plane("%e = load %x[%zero, %zero] : f64\n" + scaled)));
  EXPECT_TRUE(is_plane(plane("%e = load %x[%j, %i] : f64\n%s = mul %e, %half : f64\nstore %s, %y[%i, %j]\n")));
  EXPECT_TRUE(is_plane(plane(twice + "%y[%i, %j + 1]\n")));
  EXPECT_TRUE(is_plane(plane("%e = cast %j : f64\n" + scaled)));
  EXPECT_TRUE(is_plane(plane("check bounds %e info(%i, %j, %n) : \"\"\n" + twice + "%y[%i, %j]\n")
                           .insert(0, "%e = lt %n, %m : bool\n")));
}

TEST(Codegen, NestsThatCountAlikeAreNumberedAlike) {
  const auto code = [](const std::string& second) {
    const std::string first = plane("%v = load %x[%i, %j] : f64\n%w = mul %v, %half : f64\nstore %w, %x[%i, %j]\n");
    return code_of(*graph_of("%x: f64[2,c], %y: f64[2,c], %u: f64[1,c]", kExtents + first + plane(second) + "yield\n"));
  };
  const std::string sum = "%b = load %x[%i, %j] : f64\n%c = add %a, %b : f64\nstore %c, %y[%i, %j]\n";
  const auto flat = [&](const std::string& second) {
    const KernelCode made = code(second);
    EXPECT_FALSE(made.meets) << "an element is the same thread's";
    size_t n = 0;
    for (size_t at = 0; (at = made.text.find("const bool flat_", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(flat("%a = load %y[%i, %j] : f64\n" + sum), 2u) << "the first one as well, which would always be";
  EXPECT_EQ(flat("%a = load %u[%j] : f64\n" + sum), 0u);
}

TEST(Codegen, RowsForWorkers) {
  const auto graph = graph_of("%x: f64[2,c], %y: f64[1,c]",
                              "%n = dim 0 %x : i64\n%m = dim 1 %x : i64\n"
                              "for parallel annotated %i = %zero to %n step %one {\n" +
                                  std::string(kSum) + "store %s, %y[%i]\nyield\n}\nyield\n");
  const KernelCode code = code_of(*graph);
  expect_lines(code,
               {"team.worker", "team.workers", "team.lane", "kLanes", "reduce_lanes<kLanes>", "if (team.lane == 0)"});
  EXPECT_FALSE(code.meets) << "rows are summed without other blocks";
}

TEST(Codegen, ArraysOfAWorkerInSharedMemory) {
  const auto graph = graph_of(kTwo, R"(%n = dim 0 %x : i64
    %eight = const 8 : i64
    for parallel annotated %t = %zero to %n step %one {
      %own = alloc %eight slot 0 : f64[1,c]
      for parallel annotated %i = %zero to %eight step %one {
        %v = load %x[%i] : f64
        store %v, %own[%i]
        yield
      }
      for parallel annotated %i = %one to %eight step %one {
        %v = load %own[%i - 1] : f64
        store %v, %y[%i]
        yield
      }
      yield
    }
    yield
  )");
  CodegenOptions options;
  options.shape.narrow = options.shape.shared = true;
  const KernelCode parts = generate(*graph, options);
  expect_lines(parts, {"typedef i32 Index", "own = (double*)(appy_shared() + p.w[", "threadIdx.x / kLanes * (i64)p.w[",
                       "own[(i64)i]", "x[(i64)i]", "own[(i64)i_0 + (i64)(-1ll)]"});
  options.shape.lanes = options.shape.block;
  const KernelCode whole = generate(*graph, options);
  EXPECT_EQ(whole.text.find("threadIdx.x / kLanes"), std::string::npos) << "a block that is one worker has one array";
  options.shape.shared = false;
  expect_lines(generate(*graph, options), {"own = (double*)p.w[", "team.worker * (i64)p.w[", "own[(i64)i"});
}

TEST(Codegen, SumOfAll) {
  const auto graph = graph_of("%x: f64[1,c]", R"(%n = dim 0 %x : i64
    %s = for parallel annotated %i = %zero to %n step %one carry(sum %a = %half) : f64 {
      %v = load %x[%i] : f64
      %b = add %a, %v : f64
      yield %b
    }
    yield %s
  )");
  const KernelCode code = code_of(*graph);
  EXPECT_TRUE(code.meets);
  EXPECT_EQ(code.partial_bytes, 16u);
  expect_lines(code, {"kPartial = 16", "-0.0", "reduce_all<kBlock>", "0.5 + ", "control.results[0] = word_of("});
}

TEST(Codegen, InOrderByOneThread) {
  const auto graph = graph_of(kTwo, R"(%n = dim 0 %x : i64
    %m = sub %n, %one : i64
    for %i = %zero to %m step %one {
      %v = load %x[%i] : f64
      store %v, %x[%i + 1]
      yield
    }
    for parallel annotated %i = %zero to %m step %one {
      %v = load %x[%i] : f64
      store %v, %y[%i]
      yield
    }
    yield
  )");
  const KernelCode code = code_of(*graph);
  EXPECT_TRUE(code.meets);
  expect_lines(code, {"if (team.thread == 0)", "for (", "barrier_workers(team, control);", "team.threads"});
}

TEST(Codegen, AtomicsNativeAndByExchange) {
  const auto graph = graph_of("%h: f64[1,c], %k: i64[1,c]", R"(%n = dim 0 %k : i64
    for parallel annotated %i = %zero to %n step %one {
      %v = load %k[%i] : i64
      atomic sum %half, %h[%v]
      atomic minimum %half, %h[%v]
      yield
    }
    yield
  )");
  expect_lines(code_of(*graph), {"atomic_sum((double*)", "update_by_exchange((double*)", "minimum(old, 0.5)"});
}

constexpr const char* kPairs = R"(%n = dim 0 %x : i64
    for parallel annotated %i = %zero to %n step %one {
      %b = load %x[%i, 1] : f64
      %a = load %x[%i, 0] : f64
      %c = load %y[2*%i] : f64
      %d = load %y[2*%i + 1] : f64
      %s = add %a, %c : f64
      %t = add %b, %d : f64
      store %s, %y[2*%i]
      store %t, %y[2*%i + 1]
      yield
    }
    yield
  )";

TEST(Codegen, NeighboursAreOneAccessWhereTheyAreAligned) {
  const auto graph = graph_of("%x: f64[2,pairs], %y: f64[1,c]", kPairs);
  expect_lines(code_of(*graph), {"const bool aligned_pairs = (((u64)x) & 15) == 0 && (((u64)y) & 15) == 0;",
                                 "double a, b;", "load_two(aligned_pairs, &x[", "a, b);", "double c, d;",
                                 "load_two(aligned_pairs, &y[", "c, d);", "store_two(aligned_pairs, &y["});
  const KernelCode unrolled = code_of(*graph, 2);
  expect_lines(unrolled, {"load_two(", "load_two(", "load_two(", "load_two(", "store_two(", "store_two(", "load_two("});
  const auto strided = graph_of("%x: f64[2,inner], %y: f64[1,c]", kPairs);
  expect_lines(code_of(*strided), {"aligned_pairs = (((u64)x | (u64)x_s0) & 15) == 0 &&", "load_two("});
}

TEST(Codegen, OtherNeighboursAreTwoAccesses) {
  const auto are_apart = [](const std::string& parameters, const std::string& accesses) {
    const auto graph = graph_of(parameters,
                                "%n = dim 0 %x : i64\n"
                                "for parallel annotated %i = %zero to %n step %one {\n" +
                                    accesses + "yield\n}\nyield\n");
    return code_of(*graph).text.find("_two(") == std::string::npos;
  };
  // The first is at an odd place.
  EXPECT_TRUE(are_apart("%x: f64[1,c]", "store %half, %x[2*%i + 1]\nstore %half, %x[2*%i + 2]\n"));
  EXPECT_TRUE(are_apart("%x: f64[1,c]", "store %half, %x[%i]\nstore %half, %x[%i + 1]\n"));
  // Rows may have an odd number of elements, elements may be far from each other.
  EXPECT_TRUE(are_apart("%x: f64[2,c]", "store %half, %x[%i, 0]\nstore %half, %x[%i, 1]\n"));
  EXPECT_TRUE(are_apart("%x: f64[2,strided]", "store %half, %x[%i, 0]\nstore %half, %x[%i, 1]\n"));
  EXPECT_TRUE(are_apart("%x: f64[2,f]", "store %half, %x[%i, 0]\nstore %half, %x[%i, 1]\n"));
  // Other rows; other arrays; something between.
  EXPECT_TRUE(are_apart("%x: f64[2,pairs]", "store %half, %x[%i, 0]\nstore %half, %x[%zero, 1]\n"));
  EXPECT_TRUE(are_apart("%x: f64[2,pairs], %y: f64[2,pairs]", "store %half, %x[%i, 0]\nstore %half, %y[%i, 1]\n"));
  EXPECT_TRUE(are_apart("%x: f64[2,pairs], %y: f64[2,pairs]",
                        "store %half, %x[%i, 0]\n%v = load %x[%zero, 1] : f64\nstore %v, %x[%i, 1]\n"));
  EXPECT_FALSE(are_apart("%x: f64[2,pairs]", "store %half, %x[%i, 0]\nstore %half, %x[%i, 1]\n"));
}

TEST(Codegen, HalvesAreConvertedAndExchanged) {
  const auto graph = graph_of("%h: bf16[1,c], %g: f16[1,c], %k: i64[1,c]", R"(%n = dim 0 %k : i64
    %tenth = const 0.1 : bf16
    %one_g = const 1.0 : f16
    for parallel annotated %i = %zero to %n step %one {
      %v = load %k[%i] : i64
      %a = load %h[%i] : bf16
      %wide = cast %a : f32
      %b = load %g[%i] : f16
      %other = cast %b : f32
      %s = mul %wide, %other : f32
      %narrow = cast %s : bf16
      store %narrow, %h[%i]
      atomic sum %tenth, %h[%v]
      atomic sum %one_g, %g[%v]
      yield
    }
    yield
  )");
  expect_lines(code_of(*graph), {"appy_bfloat_to_float(a)", "appy_half_to_float(b)", "appy_float_to_bfloat(s)",
                                 "update_by_exchange((bf16*)",
                                 "appy_float_to_bfloat(appy_bfloat_to_float(old) + appy_bfloat_to_float((bf16)0x3dcd))",
                                 "update_by_exchange((f16*)", "appy_float_to_half(appy_half_to_float(old) + "});
}

TEST(Codegen, ChecksTellTheFirstFailure) {
  const auto graph = graph_of("%x: f64[1,c], %k: i64[1,c]", R"(%n = dim 0 %k : i64
    %m = dim 0 %x : i64
    for parallel annotated %i = %zero to %n step %one {
      %v = load %k[%i] : i64
      %ok = lt %v, %m : bool
      check bounds %ok info(%v, %zero, %m)
      store %half, %x[%v]
      yield
    }
    yield
  )");
  const KernelCode code = code_of(*graph);
  EXPECT_TRUE(code.checks);
  expect_lines(code, {"bool dead_", "const i64 info[] = {", "fault(team, control, 0, ", "= true;", "break;"});
}

TEST(HostPart, ComputesWhatFollowsFromExtents) {
  const auto graph = graph_of("%x: f64[2,c], %y: f64[1,c]",
                              "%n = dim 0 %x : i64\n%m = dim 1 %x : i64\n%p = dim 0 %y : i64\n%ok = le %n, %p : bool\n"
                              "check decline %ok declines : \"few\"\n%two = add %m, %m : i64\n"
                              "%t = alloc %two slot 0 : f64[1,c]\n"
                              "for parallel annotated %i = %zero to %n step %one {\n" +
                                  std::string(kSum) +
                                  "store %s, %y[%i]\nyield\n}\nstore %half, %t[%zero]\n%q = load %t[%zero] : f64\n"
                                  "yield %m, %q\n");
  const HostPart part = host_part_of(*graph);
  EXPECT_EQ(ir::verify(*part.graph), "");
  EXPECT_EQ(part.known, (std::vector<bool>{true, false}));
  EXPECT_EQ(part.made.size(), 1u);
  ASSERT_EQ(part.nests.size(), 1u);
  EXPECT_EQ(part.nests[0].mapping, ir::Mapping::workers);
  ASSERT_EQ(part.arrays.size(), 1u);
  std::vector<double> memory(100);
  const auto run = [&](ir::Word rows, ir::Word columns, ir::Word have) {
    const auto at = reinterpret_cast<ir::Word>(memory.data());
    const std::vector<ir::Word> args{at, rows, columns, 8 * columns, 8, at, have, 8};
    return ir::evaluate(*part.graph, args);
  };
  const ir::EvalResult done = run(7, 5, 7);
  ASSERT_EQ(done.outcome, ir::EvalResult::Outcome::done);
  const auto word = [&](int k) { return k < 0 ? -1 : static_cast<int64_t>(done.results[static_cast<size_t>(k)]); };
  EXPECT_EQ(word(0), 5);
  EXPECT_EQ(word(part.nests[0].trips.at(0)), 7);
  EXPECT_EQ(word(part.nests[0].lane_trips.at(0)), 5);
  EXPECT_EQ(word(part.arrays[0].extents.at(0)), 10);
  EXPECT_EQ(word(part.arrays[0].most.at(0)), 10);
  EXPECT_EQ(run(7, 5, 6).outcome, ir::EvalResult::Outcome::declined);
}

/// Which of two versions runs is known before: only that one is written, and what it does once is not unrolled. Where
/// elements decide, or what is computed with reals, both are.
TEST(HostPart, KnowsWhichVersionRuns) {
  const std::string loops = R"({
      for parallel annotated %i = %zero to %n step %one {
        for parallel annotated simd %j = %zero to %m step %one {
          store %half, %x[%i, %j]
          yield
        }
        yield
      }
      for annotated %t = %zero to %n step %one {
        for parallel annotated %i = %zero to %n step %one {
          for parallel annotated simd %j = %zero to %m step %one {
            %v = load %x[%i, %j] : f64
            store %v, %y[%i, %j]
            yield
          }
          yield
        }
        yield
      }
      yield
    } else {
      for parallel annotated %k = %zero to %n step %one {
        store %half, %x[%k, %zero]
        yield
      }
      yield
    }
    yield
  )";
  const auto made = [&](const std::string& condition) {
    return graph_of("%x: f64[2,c], %y: f64[2,c], %z: f64",
                    "%n = dim 0 %x : i64\n%m = dim 1 %x : i64\n" + condition + "if %c " + loops);
  };
  const auto graph = made("%c = le %n, %m : bool\n");
  const HostPart part = host_part_of(*graph);
  ASSERT_EQ(part.versions.size(), 1u);
  std::vector<ir::Word> args(11);
  for (const ir::Word rows : {3, 4, 5}) {
    args[1] = rows, args[2] = 4;
    const ir::EvalResult done = ir::evaluate(*part.graph, args);
    EXPECT_EQ(done.results.at(static_cast<size_t>(part.versions[0].word)), rows <= 4);
  }
  CodegenOptions options;
  options.versions = {part.versions[0].op};
  options.shape.unroll = 4;
  const auto count = [](const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  std::array<std::string, 3> texts;
  for (uint32_t taken : {0, 1, 2}) {
    options.shape.taken = taken;
    texts[taken] = generate(*graph, options).text;
    const bool both = taken == 0;
    EXPECT_EQ(count(texts[taken], "if (t_0)") + count(texts[taken], "if (c)"), both ? 1u : 0u) << texts[taken];
    EXPECT_EQ(count(texts[taken], "plane_of"), taken == 2 ? 0u : 2u) << texts[taken];
  }
  EXPECT_EQ(count(texts[1], "x[") + count(texts[2], "x["), count(texts[0], "x[")) << texts[0];
  EXPECT_EQ(host_part_of(*made("%e = load %x[%zero, %zero] : f64\n%c = lt %e, %half : bool\n")).versions.size(), 0u);
  EXPECT_EQ(host_part_of(*made("%e = sin %z : f64\n%c = lt %e, %half : bool\n")).versions.size(), 0u);
}

/// A row of a sparse matrix: how long it is only the device knows, but not how many elements all rows have.
TEST(HostPart, FindsTheArrayThatLanesRunAlong) {
  const auto graph = graph_of("%ptr: i64[1,c], %x: f64[1,c], %y: f64[1,c]", R"(%n = dim 0 %y : i64
    %m = dim 0 %x : i64
    for parallel annotated %i = %zero to %n step %one {
      %lo = load %ptr[%i] : i64
      %hi = load %ptr[%i + 1] : i64
      %s = for simd annotated %j = %lo to %hi step %one carry(sum %a = %half) : f64 {
        %k = wrap %j, %m : i64
        %v = load %x[%k] : f64
        %b = add %a, %v : f64
        yield %b
      }
      store %s, %y[%i]
      yield
    }
    yield
  )");
  const HostPart part = host_part_of(*graph);
  ASSERT_EQ(part.nests.size(), 1u);
  EXPECT_EQ(part.nests[0].lane_trips, std::vector<int>{-1});
  ASSERT_GE(part.nests[0].lane_extent, 0);
  std::vector<ir::Word> args(9);
  args[1] = 6, args[4] = 40, args[7] = 5;
  const ir::EvalResult done = ir::evaluate(*part.graph, args);
  EXPECT_EQ(done.results.at(static_cast<size_t>(part.nests[0].lane_extent)), 40u);
}

/// Tiles in groups: how long a tile is follows from neither of the variables alone.
TEST(HostPart, BoundsLanesThatRunAlongTiles) {
  const auto graph = graph_of("%x: f64[1,c], %y: f64[1,c]", R"(%n = dim 0 %x : i64
    %tile = const 64 : i64
    %group = const 1024 : i64
    for annotated %g = %zero to %n step %group {
      %g1 = add %g, %group : i64
      %ge = pymin %g1, %n : i64
      for annotated %t = %g to %ge step %tile {
        %t1 = add %t, %tile : i64
        %te = pymin %t1, %ge : i64
        for parallel annotated %i = %te to %ge step %one {
          %s = for simd annotated %j = %t to %te step %one carry(sum %a = %half) : f64 {
            %v = load %x[%j] : f64
            %b = add %a, %v : f64
            yield %b
          }
          store %s, %y[%i]
          yield
        }
        yield
      }
      for parallel annotated %i = %ge to %n step %one {
        %s = for simd annotated %j = %g to %ge step %one carry(sum %a = %half) : f64 {
          %v = load %x[%j] : f64
          %b = add %a, %v : f64
          yield %b
        }
        store %s, %y[%i]
        yield
      }
      yield
    }
    yield
  )");
  const HostPart part = host_part_of(*graph);
  ASSERT_EQ(part.nests.size(), 2u);
  std::vector<ir::Word> args(6);
  args[1] = 5000, args[4] = 5000;
  const ir::EvalResult done = ir::evaluate(*part.graph, args);
  ASSERT_GE(part.nests[0].lane_trips.at(0), 0);
  EXPECT_EQ(done.results.at(static_cast<size_t>(part.nests[0].lane_trips[0])), 64u);
  ASSERT_GE(part.nests[1].lane_trips.at(0), 0);
  EXPECT_EQ(done.results.at(static_cast<size_t>(part.nests[1].lane_trips[0])), 1024u);
}

TEST(HostPart, BoundsArraysWhoseSizeTheDeviceFinds) {
  const auto graph = graph_of("%x: f64[1,c]", R"(%n = dim 0 %x : i64
    %count = for %i = %zero to %n step %one carry(%c = %zero) : i64 {
      %v = load %x[%i] : f64
      %p = gt %v, %half : bool
      %add = cast %p : i64
      %next = add %c, %add : i64
      yield %next
    }
    %t = alloc %count slot 0 : f64[1,c]
    yield %count
  )");
  const HostPart part = host_part_of(*graph);
  EXPECT_EQ(part.known, std::vector<bool>{false});
  ASSERT_EQ(part.arrays.size(), 1u);
  EXPECT_EQ(part.arrays[0].extents, std::vector<int>{-1});
  ASSERT_GE(part.arrays[0].most.at(0), 0);
  std::vector<double> memory(20, 1.0);
  const std::vector<ir::Word> args{reinterpret_cast<ir::Word>(memory.data()), 20, 8};
  const ir::EvalResult done = ir::evaluate(*part.graph, args);
  EXPECT_EQ(done.results.at(static_cast<size_t>(part.arrays[0].most[0])), 20u);
}

}  // namespace
}  // namespace appy::gpu
