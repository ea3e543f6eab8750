// Graphs that both the evaluator and the backend are tested with.
#pragma once

namespace appy::ir {

/// How often a `for` iterates, and the sum of what it counts.
inline constexpr const char* kCount = R"(region @r(%lo: i64, %hi: i64, %by: i64) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %n, %sum = for %i = %lo to %hi step %by carry(%k = %zero, sum %s = %zero) : i64, i64 {
    %k1 = add %k, %one : i64
    %s1 = add %s, %i : i64
    yield %k1, %s1
  }
  yield %n, %sum
})";

/// A sum of odd numbers that ends at the first even one above seven, and the last number looked at.
inline constexpr const char* kBreakAndContinue = R"(region @r(%n: i64) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %seven = const 7 : i64
  %s, %last = for %i = %zero to %n step %one carry(%a = %zero, %b = %zero) : i64, i64 {
    %odd = mod %i, %two : i64
    %c = eq %odd, %zero : bool
    %x = if %c : i64 {
      %big = gt %i, %seven : bool
      if %big {
        break %a, %i
      } else {
        yield
      }
      continue %a, %i
    } else {
      yield %i
    }
    %a1 = add %a, %x : i64
    yield %a1, %i
  }
  yield %s, %last
})";

/// Steps of the Collatz sequence from %n to 1; endless for 0.
inline constexpr const char* kCollatz = R"(region @r(%n: i64) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %three = const 3 : i64
  %x, %steps = while carry(%a = %n, %k = %zero) : i64, i64 {
    %end = eq %a, %one : bool
    if %end {
      break %a, %k
    } else {
      yield
    }
    poll
    %k1 = add %k, %one : i64
    %bit = and %a, %one : i64
    %odd = eq %bit, %one : bool
    if %odd {
      %t = mul %a, %three : i64
      %u = add %t, %one : i64
      continue %u, %k1
    } else {
      yield
    }
    %h = floordiv %a, %two : i64
    yield %h, %k1
  }
  yield %steps
})";

}  // namespace appy::ir
