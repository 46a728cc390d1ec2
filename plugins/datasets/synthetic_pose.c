/* SPDX-License-Identifier: Apache-2.0
 *
 * The skeleton. Proportions follow Drillis and Contini's body segment lengths (1966), with a larger
 * head and longer hands and feet, as illustrators draw them. */
#include "synthetic_figure.h"
#include "synthetic_draw.h"

#include <math.h>

#define DEGREE 0.017453292519943295

/* Lengths over stature. */
#define SPINE     0.285F
#define NECK_HEAD 0.125F
#define SHOULDER  0.118F
#define HIP       0.060F
#define UPPER_ARM 0.165F
#define FOREARM   0.150F
#define HAND      0.040F
#define THIGH     0.235F
#define SHIN      0.235F
#define FOOT      0.085F

enum gait { GAIT_STAND, GAIT_WALK, GAIT_STAR, GAIT_SQUAT, GAIT_KICK, GAIT_WAVE, GAITS };

struct limb { float raise, forward, bend, twist; }; /* degrees */

static float normal(struct stance_rng *rng, float mean, float deviation)
{
    double n = stance_rng_normal(rng);

    return mean + deviation * (float)(n < -2.5 ? -2.5 : n > 2.5 ? 2.5 : n);
}

static struct vec3 vec3(float x, float y, float z)
{
    struct vec3 v = { x, y, z };
    return v;
}

static struct vec3 along(struct vec3 a, struct vec3 d, float t)
{
    return vec3(a.x + d.x * t, a.y + d.y * t, a.z + d.z * t);
}

/* a without its share along the unit vector u, of length 1. */
static struct vec3 across(struct vec3 a, struct vec3 u)
{
    float       dot = a.x * u.x + a.y * u.y + a.z * u.z, length;
    struct vec3 v   = along(a, u, -dot);

    length = sqrtf(v.x * v.x + v.y * v.y + v.z * v.z);
    return length > 1e-4F ? vec3(v.x / length, v.y / length, v.z / length) : vec3(u.z, u.x, u.y);
}

/* frame: rows are the left, down and front of a body part. Turns it by the angles, in its own axes:
 * first yaw about down, then pitch about left, then roll about front. */
static void turn_frame(float frame[3][3], float yaw, float pitch, float roll)
{
    const int pair[3][2] = { { 0, 2 }, { 2, 1 }, { 0, 1 } };
    const float angle[3] = { yaw, pitch, roll };

    for (int r = 0; r < 3; r++) {
        float c = (float)cos(angle[r] * DEGREE), s = (float)sin(angle[r] * DEGREE);
        float *a = frame[pair[r][0]], *b = frame[pair[r][1]];

        for (int i = 0; i < 3; i++) {
            float p = a[i], q = b[i];

            a[i] = c * p + s * q;
            b[i] = c * q - s * p;
        }
    }
}

/* From a part's own axes to picture axes. */
static struct vec3 out_of(const float frame[3][3], struct vec3 v)
{
    return vec3(frame[0][0] * v.x + frame[1][0] * v.y + frame[2][0] * v.z,
                frame[0][1] * v.x + frame[1][1] * v.y + frame[2][1] * v.z,
                frame[0][2] * v.x + frame[1][2] * v.y + frame[2][2] * v.z);
}

/* Side +1: the person's left, which is the right of the picture when the person faces it. raise:
 * from hanging down to 180 straight up; forward: 0 to the side, 90 to the front. */
static void place_arm(struct figure *f, int side, const struct limb *l, float length)
{
    int         k     = side > 0 ? 0 : 1;
    float       raise = (float)(l->raise * DEGREE), forward = (float)(l->forward * DEGREE);
    float       bend = (float)(l->bend * DEGREE), twist = (float)(l->twist * DEGREE);
    struct vec3 u =
        vec3((float)side * sinf(raise) * cosf(forward), cosf(raise), sinf(raise) * sinf(forward));
    /* The elbow bends forwards, upwards and a little inwards; twist turns that about the arm. */
    struct vec3 n = across(vec3(-0.35F * (float)side, -0.5F, 0.8F), u);
    struct vec3 m = vec3(u.y * n.z - u.z * n.y, u.z * n.x - u.x * n.z, u.x * n.y - u.y * n.x), d;

    n = vec3(n.x * cosf(twist) + m.x * sinf(twist), n.y * cosf(twist) + m.y * sinf(twist),
             n.z * cosf(twist) + m.z * sinf(twist));
    d = vec3(u.x * cosf(bend) + n.x * sinf(bend), u.y * cosf(bend) + n.y * sinf(bend),
             u.z * cosf(bend) + n.z * sinf(bend));
    u = out_of(f->torso, u);
    d = out_of(f->torso, d);
    f->point[LEFT_ELBOW + k] = along(f->point[LEFT_SHOULDER + k], u, UPPER_ARM * length);
    f->point[LEFT_WRIST + k] = along(f->point[LEFT_ELBOW + k], d, FOREARM * length);
    f->point[LEFT_HAND + k]  = along(f->point[LEFT_WRIST + k], d, HAND);
}

/* raise: to the side; forward: of the thigh; bend: of the knee, backwards. */
static void place_leg(struct figure *f, const float hips[3][3], int side, const struct limb *l,
                      float length)
{
    int         k     = side > 0 ? 0 : 1;
    float       raise = (float)(l->raise * DEGREE), forward = (float)(l->forward * DEGREE);
    float       bend = (float)(l->bend * DEGREE);
    struct vec3 u =
        vec3((float)side * sinf(raise), cosf(raise) * cosf(forward), cosf(raise) * sinf(forward));
    struct vec3 n = across(vec3(0, sinf(forward), -cosf(forward)), u), d, toe;

    d   = vec3(u.x * cosf(bend) + n.x * sinf(bend), u.y * cosf(bend) + n.y * sinf(bend),
               u.z * cosf(bend) + n.z * sinf(bend));
    toe = across(vec3(0.3F * (float)side, 0, 1), d);
    toe = out_of(hips, vec3(toe.x + 0.35F * d.x, toe.y + 0.35F * d.y, toe.z + 0.35F * d.z));
    f->point[LEFT_KNEE + k]  = along(f->point[LEFT_HIP + k], out_of(hips, u), THIGH * length);
    f->point[LEFT_ANKLE + k] = along(f->point[LEFT_KNEE + k], out_of(hips, d), SHIN * length);
    f->point[LEFT_TOE + k]   = along(f->point[LEFT_ANKLE + k], toe, FOOT);
}

/* Angles between limits; a twist of normal distribution with the given deviation. */
static struct limb draw_limb(struct stance_rng *rng, float raise0, float raise1, float forward0,
                             float forward1, float bend0, float bend1, float twist)
{
    struct limb l;

    l.raise   = uniform(rng, raise0, raise1);
    l.forward = uniform(rng, forward0, forward1);
    l.bend    = uniform(rng, bend0, bend1);
    l.twist   = normal(rng, 0, twist);
    return l;
}

/* Turns a frame at random: normal angles of the given deviations about the given pitch. */
static void sway_frame(float frame[3][3], struct stance_rng *rng, float yaw, float pitch_mean,
                       float pitch, float roll)
{
    float y = normal(rng, 0, yaw), p = normal(rng, pitch_mean, pitch), r = normal(rng, 0, roll);

    turn_frame(frame, y, p, r);
}

/* Angles of the four limbs: left arm, right arm, left leg, right leg. */
static float draw_limbs(enum gait gait, struct limb *l, struct stance_rng *rng)
{
    int   first = (int)stance_rng_below(rng, 2); /* the leg that leads, the arm that waves */
    float lean  = normal(rng, 4, 5);

    for (int i = 0; i < 2; i++) {
        l[i]     = draw_limb(rng, 8, 45, -20, 80, 5, 95, 25);
        l[2 + i] = draw_limb(rng, 2, 10, -12, 12, 0, 10, 0);
    }
    switch (gait) {
    case GAIT_WALK:
        l[2 + first] =
            draw_limb(rng, 1, 6, 14, 42, 5, 50, 0);
        l[2 + 1 - first] =
            draw_limb(rng, 1, 6, -26, -8, 5, 50, 0);
        l[first] =
            draw_limb(rng, 15, 45, -110, -70, 15, 80, 0);
        l[1 - first] =
            draw_limb(rng, 15, 45, 70, 100, 20, 90, 0);
        return lean + 4;
    case GAIT_STAR:
        for (int i = 0; i < 2; i++) {
            l[i] = draw_limb(rng, 55, 165, -15, 35, 0, 60, 30);
            l[2 + i] =
                draw_limb(rng, 10, 34, -14, 14, 0, 25, 0);
        }
        return lean - 4;
    case GAIT_SQUAT:
        for (int i = 0; i < 2; i++) {
            l[i] = draw_limb(rng, 25, 85, 40, 95, 10, 80, 20);
            l[2 + i] = draw_limb(rng, 12, 34, 35, 70, 55, 105, 0);
        }
        return lean + uniform(rng, 5, 22);
    case GAIT_KICK:
        l[first] = draw_limb(rng, 35, 95, -10, 50, 5, 60, 30);
        l[1 - first] = draw_limb(rng, 35, 95, -10, 50, 5, 60, 30);
        l[2 + first] =
            draw_limb(rng, 5, 50, 20, 70, 0, 75, 0);
        return lean - 3;
    case GAIT_WAVE:
        l[first] = draw_limb(rng, 95, 165, -10, 40, 10, 95, 40);
        return lean;
    default:
        return lean;
    }
}

/* The points of the face, in axes of the head and units of its radii: width, height, depth. */
static const struct vec3 face[5] = {
    { 0, 0.08F, 1.04F },  { 0.36F, -0.14F, 0.92F }, { -0.36F, -0.14F, 0.92F },
    { 1, 0.02F, -0.05F }, { -1, 0.02F, -0.05F },
};

void figure_pose(struct figure *f, struct stance_rng *rng, float turn, float behind)
{
    static const int gaits[] = { GAIT_STAND, GAIT_STAND, GAIT_WALK, GAIT_WALK, GAIT_WALK, GAIT_STAR,
                                 GAIT_STAR,  GAIT_SQUAT, GAIT_KICK, GAIT_WAVE, GAIT_WAVE };
    struct limb limb[4];
    float       hips[3][3] = { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } }, yaw, lean, legs, arms;
    struct vec3 up;

    lean = draw_limbs((enum gait)gaits[stance_rng_below(rng, sizeof gaits / sizeof gaits[0])], limb,
                      rng);
    /* Denser around facing the viewer: the sum of two uniform numbers. */
    yaw = uniform(rng, -turn / 2, turn / 2);
    yaw += uniform(rng, -turn / 2, turn / 2);
    if (stance_rng_uniform(rng) < behind)
        yaw += 180;
    f->build     = uniform(rng, 0.85F, 1.25F);
    f->head_size = uniform(rng, 0.95F, 1.2F);
    legs         = uniform(rng, 0.94F, 1.06F);
    arms         = uniform(rng, 0.94F, 1.06F);

    sway_frame(hips, rng, 0, 5, 4, 4); /* the camera: a little from above */
    turn_frame(hips, yaw, 0, 0);
    for (int i = 0; i < 9; i++)
        f->torso[i / 3][i % 3] = hips[i / 3][i % 3];
    sway_frame(f->torso, rng, 8, lean, 0, 6);
    for (int i = 0; i < 9; i++)
        f->head[i / 3][i % 3] = f->torso[i / 3][i % 3];
    sway_frame(f->head, rng, 14, -0.7F * lean, 8, 7);

    f->point[PELVIS] = vec3(0, 0, 0);
    up               = out_of(f->torso, vec3(0, -1, 0));
    f->point[NECK]   = along(f->point[PELVIS], up, SPINE);
    f->point[HEAD]   = along(along(f->point[NECK], up, NECK_HEAD * 0.45F),
                             out_of(f->head, vec3(0, -1, 0.12F)), NECK_HEAD * 0.75F * f->head_size);
    for (int i = 0; i < 2; i++) {
        float side = i == 0 ? 1 : -1;

        f->point[LEFT_SHOULDER + i] =
            along(f->point[NECK], out_of(f->torso, vec3(side * SHOULDER, 0.012F, 0)), 1);
        f->point[LEFT_HIP + i] =
            along(f->point[PELVIS], out_of(hips, vec3(side * HIP, 0.02F, 0)), 1);
        place_arm(f, (int)side, &limb[i], arms);
        place_leg(f, hips, (int)side, &limb[2 + i], legs);
    }
    for (int i = 0; i < 5; i++)
        f->point[NOSE + i] = along(
            f->point[HEAD],
            out_of(f->head,
                   vec3(face[i].x * HEAD_WIDTH, face[i].y * HEAD_HEIGHT, face[i].z * HEAD_DEPTH)),
            f->head_size);
}

bool figure_faces(const struct figure *f, int point)
{
    float z;

    if (point > RIGHT_EAR)
        return true;
    z = out_of(f->head, face[point]).z;
    /* An ear stands out from the head, an eye lies in it. */
    return point >= LEFT_EAR ? z > -0.35F : z > 0.12F;
}

uint32_t figure_owners(int point)
{
    static const uint32_t masks[] = {
        [LEFT_SHOULDER] = 1U << OWNER_TORSO | 1U << OWNER_NECK | 1U << OWNER_LEFT_UPPER_ARM,
        [LEFT_ELBOW]    = 1U << OWNER_LEFT_UPPER_ARM | 1U << OWNER_LEFT_FOREARM,
        [LEFT_WRIST]    = 1U << OWNER_LEFT_FOREARM,
        [LEFT_HIP]      = 1U << OWNER_TORSO | 1U << OWNER_PELVIS | 1U << OWNER_LEFT_THIGH,
        [LEFT_KNEE]     = 1U << OWNER_LEFT_THIGH | 1U << OWNER_LEFT_SHIN,
        [LEFT_ANKLE]    = 1U << OWNER_LEFT_SHIN,
    };
    uint32_t shared = 1U << OWNER_TORSO | 1U << OWNER_NECK | 1U << OWNER_PELVIS, left;

    if (point <= RIGHT_EAR)
        return 1U << OWNER_HEAD;
    left = masks[point - (point - LEFT_SHOULDER) % 2];
    /* The right owner of a pair is the bit above the left one. */
    return (point - LEFT_SHOULDER) % 2 == 0 ? left : (left & shared) | (left & ~shared) << 1;
}
