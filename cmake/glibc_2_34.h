/* Included first in every file of a portable build: functions of which glibc has a version newer than 2.34 are bound to
 * their older one, which differs in how errors are reported only. */
__asm__(".symver hypot,hypot@GLIBC_2.2.5");
__asm__(".symver hypotf,hypotf@GLIBC_2.2.5");
