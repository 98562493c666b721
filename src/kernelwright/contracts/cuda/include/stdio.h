// Empty: what device code may use of this header is built into NVRTC.
#pragma once
