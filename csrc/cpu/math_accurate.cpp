// Elementary functions that are within 1 ulp where glibc's are not: SLEEF's, or a wider type's rounded.
#include <cmath>

#include "cpu/math_calls.h"

extern "C" {
double Sleef_acoshd1_u10purecfma(double);
double Sleef_asinhd1_u10purecfma(double);
double Sleef_atanhd1_u10purecfma(double);
double Sleef_cbrtd1_u10purecfma(double);
double Sleef_coshd1_u10purecfma(double);
double Sleef_log10d1_u10purecfma(double);
double Sleef_sinhd1_u10purecfma(double);
double Sleef_tanhd1_u10purecfma(double);
double Sleef_tgammad1_u10purecfma(double);
}

namespace appy::cpu {

using ir::Opcode;

namespace {

/// `near` below the limit, beyond which SLEEF's intermediate results overflow; the x87 function there and for NaN.
template <double (*near)(double), long double (*far)(long double)>
double below(double limit, double x) {
  return std::abs(x) < limit ? near(x) : static_cast<double>(far(x));
}

double sinh64(double x) { return below<Sleef_sinhd1_u10purecfma, ::sinhl>(700, x); }
double cosh64(double x) { return below<Sleef_coshd1_u10purecfma, ::coshl>(700, x); }
double acosh64(double x) { return below<Sleef_acoshd1_u10purecfma, ::acoshl>(1e150, x); }
double asinh64(double x) {
  if (std::abs(x) < 1e-9) return x;  // x - x**3 / 6
  return below<Sleef_asinhd1_u10purecfma, ::asinhl>(1e150, x);
}
double erfc64(double x) { return static_cast<double>(::erfcl(x)); }

template <double (*f)(double)>
float in_double(float x) {
  return static_cast<float>(f(x));
}

}  // namespace

const void* accurate_function(Opcode code, ir::DType t) {
  const auto pick = [&](double (*d)(double), float (*f)(float)) {
    return t == ir::DType::f64_ ? reinterpret_cast<const void*>(d) : reinterpret_cast<const void*>(f);
  };
  switch (code) {
    case Opcode::log10_:
      return pick(&Sleef_log10d1_u10purecfma, &in_double<::log10>);
    case Opcode::sinh_:
      return pick(&sinh64, &in_double<::sinh>);
    case Opcode::cosh_:
      return pick(&cosh64, &in_double<::cosh>);
    case Opcode::tanh_:
      return pick(&Sleef_tanhd1_u10purecfma, &in_double<::tanh>);
    case Opcode::asinh_:
      return pick(&asinh64, &in_double<::asinh>);
    case Opcode::acosh_:
      return pick(&acosh64, &in_double<::acosh>);
    case Opcode::atanh_:
      return pick(&Sleef_atanhd1_u10purecfma, &in_double<::atanh>);
    case Opcode::cbrt_:
      return pick(&Sleef_cbrtd1_u10purecfma, &in_double<::cbrt>);
    case Opcode::erfc_:
      return pick(&erfc64, &in_double<::erfc>);
    case Opcode::gamma_:
      return pick(&Sleef_tgammad1_u10purecfma, &in_double<::tgamma>);
    default:
      return nullptr;
  }
}

}  // namespace appy::cpu
