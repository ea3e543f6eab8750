#include "trace_recorder_harness.h"

namespace appy::trace::testing {
namespace {

const std::string data =
    "n = 6\nx = np.arange(6.)\ny = np.zeros(6)\nA = np.arange(12.).reshape(3, 4)\nk = 0\ns = 0.0\n";

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST_F(Recording, StraightLoop) {
  const Ran run = same(data, "n x y", "for i in range(n):\n    y[i] = 2.5 * x[i] + y[i]");
  EXPECT_EQ(count(run.graph, "for "), 1u);
  EXPECT_EQ(count(run.graph, "poll "), 1u);
}

TEST_F(Recording, ZeroTripsLeaveEverything) {
  same(data, "x k s", "for i in range(k):\n    t = x[i]\n    s += t");
  same(data, "n x k s", "for i in range(n, k):\n    t = x[i]\n    s += t");
}

TEST_F(Recording, StepsOfEitherSign) {
  for (const char* range : {"0, 10, 3", "10, 0, -4", "0, 10, -1", "5, 6, 100", "n, -n, k - 2"}) {
    same(data, "n k", std::string("for i in range(") + range + "):\n    k = 3 * k + i\n    k %= 1000");
  }
  same(data, "n k", "for i in range(0, n, k):\n    k += 1");
}

TEST_F(Recording, NestedLoopsAndAccumulators) {
  same(data, "A y", "for i in range(3):\n    t = 0.0\n    for j in range(i, 4):\n        t += A[i, j]\n    y[i] = t");
}

TEST_F(Recording, Conditions) {
  same(data, "n x y",
       "for i in range(n):\n    if x[i] > 3:\n        y[i] = 1\n    elif x[i] > 1:\n        y[i] = 2\n    else:\n      "
       "  y[i] = 3");
  same(data, "n x y", "for i in range(n):\n    y[i] = 1.5 if x[i] > 2 else x[i] + 1");
  same(data, "n x y k",
       "for i in range(n):\n    if i > 0 and x[i - 1] > 1 and x[i] < 4:\n        y[i] = 1\n        k += 1\n    else:\n "
       "       y[i] = 2");
  same(data, "n x y k", "for i in range(n):\n    if i == 0 or x[i - 1] > 3 or x[i] == 2:\n        k += 1");
  same(data, "n x y k", "for i in range(n):\n    if 1 < x[i] <= 4:\n        y[i] = 1\n    else:\n        k += 1");
}

TEST_F(Recording, ConditionsAreNotDuplicated) {
  const Ran run = same(
      data, "n x y k",
      "for i in range(n):\n    if x[i] > 1 and x[i] < 4 and not k:\n        y[i] = 7\n    else:\n        y[i] = 8");
  EXPECT_EQ(count(run.graph, "store "), 2u);
}

TEST_F(Recording, LogicalOperatorsGiveValues) {
  same(data, "n x k", "for i in range(n):\n    r = x[i] and i\n    q = not r\n    z = r or 7");
}

TEST_F(Recording, EveryMixOfAndOrNot) {
  for (int bits = 0; bits < 8; ++bits) {
    const std::string setup = data + "a, b, c = " + std::to_string(bits & 1) + ", " + std::to_string(bits >> 1 & 1) +
                              ", " + std::to_string(bits >> 2) + "\n";
    same(setup, "n x a b c",
         "for i in range(n):\n    if (a and x[i] > 1 or b) and not (c or x[i] > 4):\n        x[i] = -1\n"
         "    elif a if b else c:\n        x[i] = -2\n    else:\n        x[i] = -3");
  }
}

TEST_F(Recording, While) {
  same(data, "n k s", "while k < n:\n    k += 2\n    s += k");
  same(data, "n k s", "while k > n:\n    k += 2\n    s += k");
  same(data, "k x", "while True:\n    k += 1\n    if x[k] > 3:\n        break");
  same(data, "n x k", "while k < n and x[k] < 4:\n    k += 1\n    if k == 2:\n        continue\nelse:\n    k = -k");
}

TEST_F(Recording, BreakContinueElse) {
  const std::string loop = "for i in range(n):\n    if x[i] > 2:\n        break\n    k += 1\nelse:\n    k = -1";
  same(data, "n x k", loop);
  same(data + "n = 2\n", "n x k", loop);
  same(data + "n = 0\n", "n x k", loop);
  same(data, "n x y", "for i in range(n):\n    if x[i] < 2:\n        continue\n    y[i] = x[i]");
  same(data, "n x",
       "for i in range(n):\n    for j in range(n):\n        if j > i: break\n        if x[j] == 3: continue\n"
       "        x[j] += 1\n    else:\n        x[i] = -1\n        continue\n    x[i] += 0.5");
}

TEST_F(Recording, ReturnFromInside) {
  for (const char* t : {"3.0", "99.0"}) {
    same(data + "t = " + t + "\n", "n x t", "for i in range(n):\n    if x[i] == t:\n        return i");
    same(data + "t = " + t + "\n", "n x t",
         "for i in range(n):\n    for j in range(i):\n        if x[i] + x[j] == t:\n            return i * 10.0 + j\n"
         "        elif x[i] == 5:\n            return None");
  }
}

TEST_F(Recording, TypesDependOnThePath) {
  const std::string loop = "for i in range(n):\n    if x[i] > 2: r = x[i]\n    elif x[i] > 1: r = 7";
  for (const char* n : {"6", "3", "1"}) same(data + "r = 0.5\nn = " + n + "\n", "n x r", loop);
  for (const char* n : {"6", "3", "1"}) same(data + "n = " + n + "\n", "n x", loop);
}

TEST_F(Recording, TupleAssignment) {
  same(data + "a, b = 0, 1\n", "n a b", "for i in range(n):\n    a, b = b, a + b");
  same(data, "n x k", "for j in range(1, n):\n    a, b = 36, j\n    while b:\n        a, b = b, a % b\n    x[j] = a");
}

TEST_F(Recording, NamesBoundToArrays) {
  same(data + "z = None\n", "n x y z", "for i in range(3):\n    z = x\n    z[i] = y[i] + 1");
}

TEST_F(Recording, UnboundVariables) {
  same(data, "n x", "for j in range(n):\n    x[j] += q\n    q = 1.0");
  same(data, "n x", "for j in range(n):\n    if j > 0:\n        x[j] += q\n    q = 1.0");
  same(data, "n x s", "for i in range(n):\n    t = x[i]\n    s += t\n    del t");
}

TEST_F(Recording, GlobalsCellsAndAttributes) {
  same(data + "G = 2.5\nT = (3, 0.5)\n", "n x y",
       "for i in range(T[0]):\n    y[i] = G * x[i] + T[1] + math.pi + np.sqrt(x[i])");
  same(data + "class C: pass\no = C()\no.data = np.arange(4.)\no.size = 3\n", "o s",
       "for i in range(o.size):\n    s += o.data[i]");
}

TEST_F(Recording, HelpersAreTracedThrough) {
  const std::string helpers =
      "def h(a, b=2.0, *, c=1):\n    if a > b:\n        return a - c\n    return b\n"
      "def find(a):\n    for k in range(10):\n        if k > a:\n            return k\n    return -1\n"
      "def one(a): return a + 1\ndef two(a): return one(a) * 2\ndef three(a): return two(a) - 3\n"
      "def make(q):\n    def scaled(v): return v * q\n    return scaled\nscaled = make(3)\n"
      "def first(a, b): return a, b\n";
  same(data + helpers, "n x y", "for i in range(n):\n    y[i] = h(x[i]) + h(x[i], b=3.0, c=2)");
  same(data + helpers, "n x y", "for i in range(n):\n    y[i] = find(x[i]) + three(x[i]) + scaled(x[i])");
  same(data + helpers, "n x y", "for i in range(n):\n    a, b = first(x[i], i)\n    y[i] = a - b");
}

TEST_F(Recording, ChecksRaiseAsPythonDoes) {
  same(data, "x s", "for i in range(8):\n    s += x[i]");
  same(data, "n x y", "for i in range(n):\n    assert x[i] < 4, 'too big'\n    y[i] = 1");
  same(data, "n x y", "for i in range(n):\n    if x[i] > 3:\n        raise ValueError('boom')\n    y[i] = 1");
  same(data, "n x y k", "for i in range(n):\n    y[i] = 1 // (3 - i)");
}

TEST_F(Recording, Pragmas) {
  pragmas_ = {{1, "parallel for schedule(dynamic, 4)"}, {2, "simd"}};
  const Ran run = same(data, "A y", "for i in range(3):\n    for j in range(4):\n        A[i, j] += 1");
  EXPECT_EQ(count(run.graph, "parallel"), 1u) << run.graph;
  EXPECT_EQ(count(run.graph, "simd"), 1u) << run.graph;
  pragmas_ = {{1, "parallel for"}};
  const Ran left = same(data, "n x k", "for i in range(n):\n    if x[i] > 2: break\n    k += 1");
  EXPECT_EQ(count(left.graph, "parallel"), 0u) << left.graph;
}

TEST_F(Recording, Atomic) {
  pragmas_ = {{2, "atomic"}};
  const Ran run = same(data + "h = np.zeros(3, int)\n", "n h", "for i in range(n):\n    h[i % 3] += i");
  EXPECT_EQ(count(run.graph, "atomic "), 1u) << run.graph;
}

TEST_F(Recording, Refusals) {
  const auto refused = [&](const std::string& names, const std::string& statement) {
    return traced(data, names, statement).abort;
  };
  EXPECT_EQ(refused("n", "for i in range(n):\n    t = f'{i}'"), "opcode");
  EXPECT_EQ(refused("n x", "for v in x:\n    n = v"), "iterable");
  EXPECT_EQ(refused("n x", "for i in range(n):\n    x[::i] = 2"), "subscript");
  EXPECT_EQ(refused("n x", "for i in range(n):\n    try:\n        x[i] = 1\n    except IndexError:\n        pass"),
            "handler");
  EXPECT_EQ(refused("n x y", "for i in range(n):\n    x, y = y, x"), "path_types");
  EXPECT_EQ(traced(data + "def r(a): return r(a)\n", "n x", "for i in range(n):\n    x[i] = r(i)").abort, "recursion");
  EXPECT_EQ(traced(data + "x.flags.writeable = False\n", "n x", "for i in range(n):\n    x[i] = i").abort, "read_only");
}

}  // namespace
}  // namespace appy::trace::testing
