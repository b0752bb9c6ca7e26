/* pattern-ioctl.c with the ioctl header in the shape in which it was first posted. */
#define SCIF_IOCTL_POSTED
#include "pattern-ioctl.c"
